// SPDX-License-Identifier: MIT
// The part of ClickHouse's HTTP interface that sonde uses, on the engine of the package chdb, in this process.
// usage: node server.cjs MODULES FOLDER; prints its port. Requests run one after the other.
"use strict";
const fs = require("fs");
const http = require("http");
const path = require("path");
const { createRequire } = require("module");

const [modules, folder] = process.argv.slice(2);
const { Session } = createRequire(path.join(path.resolve(modules), "x"))("chdb");
const session = new Session(path.join(folder, "data"));
const upload = path.join(folder, "upload");

const quote = (text) => `'${text.replace(/[\\']/g, "\\$&")}'`;

// The rows of an INSERT come from a file, whose columns have the types of the table's.
async function insert(sql, database, body) {
  const [, table, list] = /^INSERT INTO (\w+) \(([^)]*)\) FORMAT RowBinary$/.exec(sql);
  const found = await session.queryAsync(
    `SELECT name, type FROM system.columns WHERE database = ${quote(database)} AND table = ${quote(table)}`,
    { format: "TSV" },
  );
  const types = new Map(found.text().trim().split("\n").map((line) => line.split("\t")));
  const structure = list.split(", ").map((name) => `${name} ${types.get(name)}`).join(", ");
  fs.writeFileSync(upload, body);
  return session.queryAsync(
    `INSERT INTO ${table} (${list}) SELECT * FROM file(${quote(upload)}, 'RowBinary', ${quote(structure)})`,
  );
}

async function answer(url, body) {
  const database = url.searchParams.get("database");
  const sql = url.searchParams.get("query");
  if (database) await session.queryAsync(`USE ${database}`);
  if (sql) return void (await insert(sql, database, body));
  return (await session.queryAsync(body.toString(), { format: "TSV" })).bytes();
}

let last = Promise.resolve();

http.createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    last = last.then(async () => {
      try {
        const bytes = await answer(new URL(request.url, "http://localhost"), Buffer.concat(parts));
        response.end(bytes && Buffer.from(bytes));
      } catch (error) {
        response.statusCode = 500;
        response.end(String(error.message));
      }
    });
  });
}).listen(0, "127.0.0.1", function () {
  console.log(this.address().port);
});
