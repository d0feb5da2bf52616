# A toolchain file that compiles the library of this example for aarch64 Android without the NDK, to see that it compiles:
#     cmake -S app/src/main/cpp -B build -DCMAKE_TOOLCHAIN_FILE=zig.cmake -DZIG="python;-m;ziglang" -DZIG_LIB=... -DJNI=...
# zig has no C library of Android, so the headers are musl's (ZIG_LIB/libc/include), and the functions stay undefined. An
# app is built with the NDK, which Gradle uses.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ZIG ZIG_LIB JNI)
set(CMAKE_C_COMPILER ${ZIG} cc)
set(headers ${ZIG_LIB}/libc/include)
string(CONCAT CMAKE_C_FLAGS_INIT "-target aarch64-linux-android -nostdinc -isystem ${ZIG_LIB}/include "
  "-isystem ${headers}/aarch64-linux-musl -isystem ${headers}/generic-musl -isystem ${headers}/any-linux-any -I${JNI} -I${JNI}/linux")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-nostdlib")
set(CMAKE_C_STANDARD_LIBRARIES "")
