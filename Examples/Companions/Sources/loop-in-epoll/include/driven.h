// DrivenLoop.swift.
#pragma once
#include <stdbool.h>

void *driven_begin(void);
int driven_descriptor(void *run);
int driven_prepare(void *run);
bool driven_dispatch(void *run);
void driven_end(void *run);
