/* A program that knows no MPI, as an interpreter: loads libraries in local scope, calls `main` of the last, and closes it. */
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
    if (!run)
        return 1;
    const char *name = argv[at - 1];
    int code = run(argc - at, argv + at);
    /* Nobody else keeps it. */
    dlclose(last);
    if (dlopen(name, RTLD_NOW | RTLD_NOLOAD)) {
        printf("FAIL %s stays loaded\n", name);
        return 1;
    }
    return code;
}
