#ifndef SWIFT_PORTS_MACH_PORT_TYPES_H
#define SWIFT_PORTS_MACH_PORT_TYPES_H

#pragma GCC system_header

/* The number of a port in this process, as a Mach port's name is one in its task. No Mach kernel is involved. */
typedef unsigned int mach_port_t;
typedef mach_port_t mach_port_name_t;
typedef mach_port_t ipc_space_t;
typedef mach_port_t task_t;

#ifndef __swift__
#define MACH_PORT_NULL ((mach_port_t)0)
#endif
#define MACH_PORT_VALID(name) ((name) != 0 && (name) != ~(mach_port_t)0)

typedef unsigned int mach_port_right_t;
#define MACH_PORT_RIGHT_SEND ((mach_port_right_t)0)
#define MACH_PORT_RIGHT_RECEIVE ((mach_port_right_t)1)
#define MACH_PORT_RIGHT_SEND_ONCE ((mach_port_right_t)2)

#endif
