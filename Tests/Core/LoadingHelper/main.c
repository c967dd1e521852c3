// A program that loads what it runs, and the library with it, from the file that LIBRARY names.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments) {
    void *library = dlopen(getenv("LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    int (*helper)(int, char **) = library ? (int (*)(int, char **))dlsym(library, "PortsTestHelper_main") : NULL;
    if (helper) return helper(count, arguments);
    fprintf(stderr, "%s\n", dlerror());
    return 70;
}
