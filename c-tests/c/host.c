/* A program that knows no MPI, as an interpreter: loads libraries in local scope, and calls `main` of the last. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    void *last = NULL;
    int at = 1;
    /* host LIBRARY... with ARGUMENTS */
    for (; at < argc && strcmp(argv[at], "with"); ++at) {
        last = dlopen(argv[at], RTLD_NOW | RTLD_LOCAL);
        if (!last) {
            printf("FAIL %s\n", dlerror());
            return 1;
        }
    }
    int (*run)(int, char **) = last ? (int (*)(int, char **))dlsym(last, "main") : NULL;
    return run ? run(argc - at, argv + at) : 1;
}
