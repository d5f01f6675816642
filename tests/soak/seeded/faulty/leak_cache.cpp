// SPDX-License-Identifier: MIT
// fault: a cache of rendered pages is never emptied: each query string has an entry of its own
// culprit: render_cached, render_page, remember
// kind: grow, grew, leak, never freed
// record: --malloc=all
// build: g++ -O1 -g
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <unordered_map>

class page_cache {
public:
  const std::string *find(const std::string &url) const {
    auto it = pages_.find(url);
    return it == pages_.end() ? nullptr : &it->second;
  }
  __attribute__((noinline)) const std::string &remember(const std::string &url, std::string page) {
    return pages_.emplace(url, std::move(page)).first->second;
  }

private:
  std::unordered_map<std::string, std::string> pages_;
};

static page_cache cache;

static __attribute__((noinline)) std::string render_page(const std::string &url) {
  std::string page = "<html><title>" + url + "</title>";
  for (int i = 0; i < 200; i++)
    page += "<p>row " + std::to_string(i) + "</p>";
  return page;
}

static __attribute__((noinline)) const std::string &render_cached(const std::string &url) {
  if (const std::string *page = cache.find(url)) return *page;
  return cache.remember(url, render_page(url));
}

static __attribute__((noinline)) size_t serve(int request) {
  std::string url =
      "/list?page=" + std::to_string(request % 7) + "&session=" + std::to_string(request);
  std::string header =
      "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(render_cached(url).size());
  return header.size();
}

int main() {
  size_t sent = 0;
  for (int request = 0; request < 6000; request++) {
    sent += serve(request);
    if (request % 4 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::printf("%zu\n", sent);
}
