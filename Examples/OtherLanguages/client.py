#!/usr/bin/env python3
"""A client in Python: client.py NAME TEXT. It sends a request, and prints the reply.

Finds the library with pkg-config, and calls its functions by ctypes.
"""

import ctypes
import subprocess
import sys
from ctypes import POINTER, byref, c_char_p, c_double, c_int32, c_long, c_uint32, c_void_p


def load():
    folder = subprocess.run(
        ["pkg-config", "--variable=libdir", "CoreFoundationPorts"], check=True, capture_output=True, text=True).stdout
    return ctypes.CDLL(f"{folder.strip()}/libCoreFoundationPorts.so")


def declare(function, result, *arguments):
    function.restype, function.argtypes = result, arguments


cf = load()
UTF8 = 0x08000100
mode = c_void_p.in_dll(cf, "kCFRunLoopDefaultMode")
declare(cf.CFRelease, None, c_void_p)
declare(cf.CFStringCreateWithCString, c_void_p, c_void_p, c_char_p, c_uint32)
declare(cf.CFDataCreate, c_void_p, c_void_p, c_char_p, c_long)
declare(cf.CFDataGetBytePtr, c_void_p, c_void_p)
declare(cf.CFDataGetLength, c_long, c_void_p)
declare(cf.CFMessagePortCreateRemote, c_void_p, c_void_p, c_void_p)
declare(
    cf.CFMessagePortSendRequest, c_int32, c_void_p, c_int32, c_void_p, c_double, c_double, c_void_p, POINTER(c_void_p))


def ask(name, data):
    text = cf.CFStringCreateWithCString(None, name.encode(), UTF8)
    port = cf.CFMessagePortCreateRemote(None, text)
    cf.CFRelease(text)
    if not port:
        sys.exit(f"nobody has the name {name}")
    request, reply = cf.CFDataCreate(None, data, len(data)), c_void_p()
    result = cf.CFMessagePortSendRequest(port, 1, request, 5, 5, mode, byref(reply))
    cf.CFRelease(request)
    cf.CFRelease(port)
    if result:
        sys.exit(f"no reply: {result}")
    answer = ctypes.string_at(cf.CFDataGetBytePtr(reply), cf.CFDataGetLength(reply))
    cf.CFRelease(reply)
    return answer


print(ask(sys.argv[1], sys.argv[2].encode()).decode())
