#include "loop.h"

#include <stdio.h>

// Chores.swift.
void start_chores(void);

int main(void) {
    start_chores();
    if (!run_loop()) return 1;
    printf("the loop was stopped\n");
    return 0;
}
