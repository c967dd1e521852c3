/* Names of ports for the processes of one user: those of PortNameServer. */
#ifndef SWIFT_PORTS_BOOTSTRAP_H
#define SWIFT_PORTS_BOOTSTRAP_H

#pragma GCC system_header

#include "../mach/mach.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BOOTSTRAP_SUCCESS 0
#define BOOTSTRAP_NOT_PRIVILEGED 1100
#define BOOTSTRAP_NAME_IN_USE 1101
#define BOOTSTRAP_UNKNOWN_SERVICE 1102
#define BOOTSTRAP_SERVICE_ACTIVE 1103

typedef char name_t[128];

/* The name server of the user. */
static const mach_port_t bootstrap_port = 0x707;

/* Makes a port that can receive, and gives it a name. */
extern kern_return_t bootstrap_check_in(mach_port_t bp, const char *service_name, mach_port_t *sp);
/* Makes the port that the next bootstrap_check_in of the name in this process returns. Its right to send is in sp. */
extern kern_return_t bootstrap_create_service(mach_port_t bp, const char *service_name, mach_port_t *sp);
/* Gives a name to a port that can receive. */
extern kern_return_t bootstrap_register(mach_port_t bp, const char *service_name, mach_port_t sp);
/* Finds the port of a name. The caller has a reference to the right to send. */
extern kern_return_t bootstrap_look_up(mach_port_t bp, const char *service_name, mach_port_t *sp);

static inline const char *bootstrap_strerror(kern_return_t error) { return mach_error_string(error); }

#define TASK_BOOTSTRAP_PORT 4

static inline kern_return_t task_get_special_port(mach_port_t task, int which, mach_port_t *port) {
    (void)task;
    if (which != TASK_BOOTSTRAP_PORT) return KERN_INVALID_ARGUMENT;
    *port = bootstrap_port;
    return KERN_SUCCESS;
}

#ifdef __cplusplus
}
#endif

#endif
