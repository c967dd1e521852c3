#ifndef SWIFT_PORTS_MACH_ERROR_H
#define SWIFT_PORTS_MACH_ERROR_H

#pragma GCC system_header

#include "mach.h"

#include <stdio.h>

/* A sentence for a result of Mach's functions. */
static inline char *mach_error_string(kern_return_t error) {
    switch (error) {
    case KERN_SUCCESS: return (char *)"(os/kern) successful";
    case KERN_NO_SPACE: return (char *)"(os/kern) no port can be made";
    case KERN_INVALID_ARGUMENT: return (char *)"(os/kern) invalid argument";
    case KERN_FAILURE: return (char *)"(os/kern) failure";
    case KERN_INVALID_NAME: return (char *)"(os/kern) invalid name";
    case KERN_INVALID_RIGHT: return (char *)"(os/kern) invalid right";
    case MACH_SEND_INVALID_DEST: return (char *)"(ipc/send) invalid destination port";
    case MACH_SEND_TIMED_OUT: return (char *)"(ipc/send) timed out";
    case MACH_SEND_MSG_TOO_SMALL: return (char *)"(ipc/send) message is too small";
    case MACH_SEND_INVALID_REPLY: return (char *)"(ipc/send) invalid reply port";
    case MACH_SEND_NO_BUFFER: return (char *)"(ipc/send) the port cannot be reached";
    case MACH_SEND_TOO_LARGE: return (char *)"(ipc/send) message is too large";
    case MACH_SEND_INVALID_TYPE: return (char *)"(ipc/send) messages have bytes alone";
    case MACH_RCV_INVALID_NAME: return (char *)"(ipc/rcv) invalid name";
    case MACH_RCV_TIMED_OUT: return (char *)"(ipc/rcv) timed out";
    case MACH_RCV_TOO_LARGE: return (char *)"(ipc/rcv) message is too large for the buffer";
    case MACH_RCV_PORT_DIED: return (char *)"(ipc/rcv) the port has ended";
    case 1100: return (char *)"not allowed in the registry directory";
    case 1101: return (char *)"name is in use";
    case 1102: return (char *)"nobody has the name";
    case 1103: return (char *)"another port has the name";
    default: return (char *)"unknown error code";
    }
}

/* Prints the sentence to the standard error, behind a text of the program's. */
static inline void mach_error(const char *text, kern_return_t error) {
    fprintf(stderr, "%s %s (%#x)\n", text, mach_error_string(error), (unsigned)error);
}

#endif
