/* Says what the MPI calls itself, in one line. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#ifdef LAM_MPI
#include <lam_config.h>
#endif

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
#ifdef LAM_MPI
    printf("LAM/MPI %s\n", LAM_VERSION);
#else
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, "\n,")] = 0;
    for (char *c = text; *c; ++c)
        if (*c == '\t') *c = ' ';
    printf("%s\n", text);
#endif
    MPI_Finalize();
    return 0;
}
