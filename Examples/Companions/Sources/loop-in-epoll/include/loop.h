#pragma once
#include <stdbool.h>

bool run_loop(void);
