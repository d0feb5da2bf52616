/* Python's configuration for modules of the stable ABI, on each system that dist.py compiles for:
   the compiler knows the sizes. It replaces the file of the same name that belongs to one
   machine. */
#ifndef Py_PYCONFIG_H
#define Py_PYCONFIG_H
#include <sys/types.h>
#define SIZEOF_SHORT __SIZEOF_SHORT__
#define SIZEOF_INT __SIZEOF_INT__
#define SIZEOF_LONG __SIZEOF_LONG__
#define SIZEOF_LONG_LONG __SIZEOF_LONG_LONG__
#define SIZEOF_VOID_P __SIZEOF_POINTER__
#define SIZEOF_SIZE_T __SIZEOF_SIZE_T__
#define SIZEOF_WCHAR_T __SIZEOF_WCHAR_T__
#define SIZEOF_FLOAT __SIZEOF_FLOAT__
#define SIZEOF_DOUBLE __SIZEOF_DOUBLE__
#define SIZEOF_TIME_T 8
#define SIZEOF_OFF_T 8
#define SIZEOF_PID_T 4
#define HAVE_STDINT_H 1
#define HAVE_INTTYPES_H 1
#define HAVE_UINTPTR_T 1
#define HAVE_WCHAR_H 1
#define WITH_THREAD 1
#ifdef _WIN32
#define MS_WINDOWS 1
#define MS_WIN32 1
#define MS_WIN64 1
#define MS_COREDLL 1
#define HAVE_DECLSPEC_DLL 1
#define Py_ENABLE_SHARED 1 /* functions come from python3.dll */
#define PLATFORM "win32"
#else
#define HAVE_SSIZE_T 1
#define HAVE_UNISTD_H 1
#define HAVE_DIRENT_H 1
#define HAVE_SYS_TIME_H 1
#endif
#endif
