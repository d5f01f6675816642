# nix-build packaging/nix: sonde from this source. Only its syntax is checked by ./run package.
{ pkgs ? import <nixpkgs> { } }:

pkgs.stdenv.mkDerivation {
  pname = "sonde";
  version = "0.1.0";
  src = pkgs.lib.cleanSource ../..;

  nativeBuildInputs = with pkgs; [ cmake ninja pkg-config protobufc python3 ];
  buildInputs = with pkgs; [ curl elfutils json_c libiberty libplist libyaml ncurses protobufc sqlite xz zlib zstd ];

  cmakeFlags = [ "-DBUILD_TESTING=OFF" ];
  # The archive is one object made with objcopy. The agent calls nothing of libc, so no checked forms either.
  hardeningDisable = [ "fortify" "stackprotector" ];
  # libcurl is loaded at run time, by `sonde push` and for ClickHouse.
  postFixup = "patchelf --add-rpath ${pkgs.lib.makeLibraryPath [ pkgs.curl ]} $out/lib/sonde/libsonde-verbs.so";
  outputs = [ "out" "man" "doc" ];

  meta = with pkgs.lib; {
    description = "Profiler and tracer for running programs";
    license = licenses.mit;
    platforms = [ "x86_64-linux" "aarch64-linux" ];
    mainProgram = "sonde";
  };
}
