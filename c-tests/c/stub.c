/* The calls of a serial program, which MPI's own stand-in answers (with STUB the library, else the program). */
#include <stdio.h>

int MPI_Init(int *argc, char ***argv);
int MPI_Comm_rank(int comm, int *rank);
int MPI_Finalize(void);

#ifdef STUB
int MPI_Init(int *argc, char ***argv) { return (void)argc, (void)argv, 0; }
int MPI_Comm_rank(int comm, int *rank) { return (void)comm, *rank = 7, 0; }
int MPI_Finalize(void) { return 0; }
#else
int main(int argc, char **argv)
{
    int rank = -1, codes = MPI_Init(&argc, &argv) + MPI_Comm_rank(0, &rank);
    codes += MPI_Finalize();
    printf("rank %d codes %d\n", rank, codes);
    return 0;
}
#endif
