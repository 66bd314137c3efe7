/* Which of the MPI's names can be seen, by the ways in which programs look for them.
 *
 *     gaps NAMES PLUGIN
 *
 * Built without an MPI, it gets one only with the plugin.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void look(const char *when, const char *names)
{
    char line[256];
    FILE *f = fopen(names, "r");
    if (!f) exit(2);
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        dlerror();
        int seen = dlsym(RTLD_DEFAULT, line) != NULL;
        /* Who is given nothing is told why. */
        const char *error = dlerror();
        printf("%s %s %s\n", when, line, seen ? "seen" : error && strstr(error, line) ? "lacking" : "lacking, not said");
    }
    fclose(f);
}

#ifdef GAPS_WITH_MPI
#include <mpi.h>
/* Bound before any code of the library runs. Called only where the MPI lacks it. */
extern int early(void) __asm__("MPI_Isendrecv_replace_c") __attribute__((weak));
#ifndef MPI_ERR_UNSUPPORTED_OPERATION
#define MPI_ERR_UNSUPPORTED_OPERATION MPI_ERR_OTHER
#endif
#endif

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    look("start", argv[1]);
#ifdef GAPS_WITH_MPI
    MPI_Init(&argc, &argv);
    if (early && !dlsym(RTLD_DEFAULT, "MPI_Isendrecv_replace_c")) {
        int class = -1;
        MPI_Error_class(early(), &class);
        fprintf(stderr, "EARLY %s\n", class == MPI_ERR_UNSUPPORTED_OPERATION ? "unsupported" : "something else");
    }
#endif
    void *plugin = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    if (!plugin) {
        fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    void (*work)(void) = (void (*)(void))dlsym(plugin, "work");
    if (!work) return 4;
    work();
    return 0;
}
