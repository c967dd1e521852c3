#ifndef SWIFT_PORTS_MACH_TIME_H
#define SWIFT_PORTS_MACH_TIME_H

#pragma GCC system_header

#include "mach.h"

#include <stdint.h>

typedef struct mach_timebase_info {
    uint32_t numer;
    uint32_t denom;
} mach_timebase_info_data_t;
typedef struct mach_timebase_info *mach_timebase_info_t;

/* A tick is a nanosecond. */
static inline kern_return_t mach_timebase_info(mach_timebase_info_t info) {
    info->numer = info->denom = 1;
    return KERN_SUCCESS;
}

#ifdef __cplusplus
extern "C" {
#endif

/* The time since some moment, which does not go on while the machine sleeps. */
extern uint64_t mach_absolute_time(void);

#ifdef __cplusplus
}
#endif

#endif
