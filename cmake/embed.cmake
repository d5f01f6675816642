# cmake -DFILE=… -DNAME=… -DOUT=… -P embed.cmake: writes a C header with the bytes of FILE and a 0 as the array NAME.
# Without a FILE the array holds the 0 alone.
set(bytes "")
if(FILE)
  file(READ ${FILE} hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
endif()
file(WRITE ${OUT} "static const unsigned char ${NAME}_bytes[] = {${bytes}0};\n")
file(APPEND ${OUT} "#define ${NAME} ((const char *)${NAME}_bytes)\n")
