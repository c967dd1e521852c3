/* Messages of bytes to ports by their numbers. See the page "CFMachPort" of CoreFoundationPorts. */
#ifndef SWIFT_PORTS_MACH_H
#define SWIFT_PORTS_MACH_H

#pragma GCC system_header

#include "port.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int kern_return_t;
#define KERN_SUCCESS 0
#define KERN_NO_SPACE 3
#define KERN_FAILURE 5
#define KERN_INVALID_ARGUMENT 4
#define KERN_INVALID_NAME 15
#define KERN_INVALID_RIGHT 17

typedef unsigned int mach_msg_bits_t;
typedef unsigned int mach_msg_size_t;
typedef unsigned int mach_msg_timeout_t;
typedef unsigned int mach_msg_type_name_t;
typedef int mach_msg_id_t;
typedef int mach_msg_option_t;
typedef int mach_msg_options_t;
typedef kern_return_t mach_msg_return_t;

typedef struct {
    mach_msg_bits_t msgh_bits;
    mach_msg_size_t msgh_size;
    mach_port_t msgh_remote_port;
    mach_port_t msgh_local_port;
    mach_port_name_t msgh_voucher_port;
    mach_msg_id_t msgh_id;
} mach_msg_header_t;

#define msgh_reserved msgh_voucher_port

/* The number of memory descriptors, behind the header of a complex message. */
typedef struct {
    mach_msg_size_t msgh_descriptor_count;
} mach_msg_body_t;

/* Memory that a complex message carries: the receiver gets a copy, and deallocates it. */
#pragma pack(push, 4)
typedef struct {
    void *address;
    unsigned int deallocate : 8;
    unsigned int copy : 8;
    unsigned int pad1 : 8;
    unsigned int type : 8;
    mach_msg_size_t size;
} mach_msg_ool_descriptor_t;
#pragma pack(pop)

#define MACH_MSG_OOL_DESCRIPTOR 1
#define MACH_MSG_PHYSICAL_COPY 0
#define MACH_MSG_VIRTUAL_COPY 1

/* Behind the bytes of a received message, at the next multiple of four. */
typedef struct {
    unsigned int msgh_trailer_type;
    unsigned int msgh_trailer_size;
} mach_msg_trailer_t;

typedef struct {
    mach_msg_header_t header;
} mach_msg_empty_send_t;

typedef struct {
    mach_msg_header_t header;
    mach_msg_trailer_t trailer;
} mach_msg_empty_rcv_t;

#define MACH_MSG_TYPE_MOVE_RECEIVE 16
#define MACH_MSG_TYPE_MOVE_SEND 17
#define MACH_MSG_TYPE_MOVE_SEND_ONCE 18
#define MACH_MSG_TYPE_COPY_SEND 19
#define MACH_MSG_TYPE_MAKE_SEND 20
#define MACH_MSG_TYPE_MAKE_SEND_ONCE 21

#define MACH_MSGH_BITS_COMPLEX 0x80000000u
#define MACH_MSGH_BITS_REMOTE_MASK 0x1fu
#define MACH_MSGH_BITS_LOCAL_MASK 0x1f00u
#define MACH_MSGH_BITS(remote, local) ((remote) | ((local) << 8))
#define MACH_MSGH_BITS_REMOTE(bits) ((bits) & 0x1f)
#define MACH_MSGH_BITS_LOCAL(bits) (((bits) >> 8) & 0x1f)
#define MACH_MSGH_BITS_SET(remote, local, voucher, other) (MACH_MSGH_BITS(remote, local) | (other))

#define MACH_MSG_OPTION_NONE 0
#define MACH_SEND_MSG 1
#define MACH_RCV_MSG 2
#define MACH_RCV_LARGE 4
#define MACH_SEND_TIMEOUT 0x10
#define MACH_RCV_TIMEOUT 0x100
#define MACH_MSG_TIMEOUT_NONE ((mach_msg_timeout_t)0)

#define MACH_MSG_SUCCESS 0
#define MACH_SEND_INVALID_DATA 0x10000002
#define MACH_SEND_INVALID_DEST 0x10000003
#define MACH_SEND_TIMED_OUT 0x10000004
#define MACH_SEND_MSG_TOO_SMALL 0x10000008
#define MACH_SEND_INVALID_REPLY 0x10000009
#define MACH_SEND_NO_BUFFER 0x1000000d
#define MACH_SEND_TOO_LARGE 0x1000000e
#define MACH_SEND_INVALID_TYPE 0x1000000f
#define MACH_RCV_INVALID_NAME 0x10004002
#define MACH_RCV_TIMED_OUT 0x10004003
#define MACH_RCV_TOO_LARGE 0x10004004
#define MACH_RCV_PORT_DIED 0x10004009

/* This process, for the functions below. No other task can be named. */
static const mach_port_t mach_task_self_ = 0x203;
#define mach_task_self() mach_task_self_

/* Sends the bytes of a message to the port of a number, or takes a port's next message, or both. The times are milliseconds. Not
   for signal handlers: it takes locks.
   MACH_SEND_INVALID_TYPE: a complex message may have memory, and no rights. */
extern mach_msg_return_t mach_msg(
    mach_msg_header_t *msg, mach_msg_option_t option, mach_msg_size_t send_size, mach_msg_size_t rcv_size,
    mach_port_name_t rcv_name, mach_msg_timeout_t timeout, mach_port_name_t notify);

/* Sends, and waits for room. */
static inline mach_msg_return_t mach_msg_send(mach_msg_header_t *header) {
    return mach_msg(
        header, MACH_SEND_MSG, header->msgh_size, 0, 0, MACH_MSG_TIMEOUT_NONE, 0);
}

/* Waits for the next message of the port in msgh_local_port. The buffer has msgh_size bytes. */
static inline mach_msg_return_t mach_msg_receive(mach_msg_header_t *header) {
    return mach_msg(
        header, MACH_RCV_MSG, 0, header->msgh_size, header->msgh_local_port, MACH_MSG_TIMEOUT_NONE, 0);
}

/* Deallocates the memory of a received message, and the reference to the port for the answer. */
extern void mach_msg_destroy(mach_msg_header_t *header);

typedef uintptr_t vm_address_t;
typedef uintptr_t vm_size_t;
/* Deallocates memory of a received message. */
extern kern_return_t vm_deallocate(mach_port_t task, vm_address_t address, vm_size_t size);

/* Makes a port that can receive; MACH_PORT_RIGHT_RECEIVE is the one right that will do. */
extern kern_return_t mach_port_allocate(mach_port_t task, mach_port_right_t right, mach_port_name_t *name);
/* Adds a reference to the right to send to a port that this process knows. */
extern kern_return_t mach_port_insert_right(
    mach_port_t task, mach_port_name_t name, mach_port_t poly, mach_msg_type_name_t polyPoly);
/* Takes a reference to the right to send back. The number is free after the last one, unless the port can receive. */
extern kern_return_t mach_port_deallocate(mach_port_t task, mach_port_name_t name);
/* Adds or takes references. Of the right to receive, -1 ends the port. */
extern kern_return_t mach_port_mod_refs(
    mach_port_t task, mach_port_name_t name, mach_port_right_t right, int delta);
/* Ends a port that can receive, and takes all references. */
extern kern_return_t mach_port_destroy(mach_port_t task, mach_port_name_t name);

typedef unsigned int mach_port_msgcount_t;
typedef struct mach_port_limits {
    mach_port_msgcount_t mpl_qlimit;
} mach_port_limits_t;
typedef int *mach_port_info_t;
#define MACH_PORT_LIMITS_INFO 1
#define MACH_PORT_LIMITS_INFO_COUNT 1
#define MACH_PORT_QLIMIT_SMALL 16
#define MACH_PORT_QLIMIT_BASIC 5
#define MACH_PORT_QLIMIT_LARGE 1024

/* A port takes 1,000 messages of each sender, whatever limit a program asks for. */
static inline kern_return_t mach_port_set_attributes(
    mach_port_t task, mach_port_name_t name, int flavor, mach_port_info_t info, mach_msg_size_t count) {
    (void)task, (void)name, (void)info, (void)count;
    return flavor == MACH_PORT_LIMITS_INFO ? KERN_SUCCESS : KERN_INVALID_ARGUMENT;
}

#ifdef __cplusplus
}
#endif

#include "mach_error.h"

#endif
