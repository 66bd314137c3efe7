/* With BY_FORTRAN, a program's checkpoints go by the calls that Fortran programs have, under any MPI: with communicators as
 * INTEGERs, and text that is padded with blanks. Comes behind kit.h. */
#ifdef BY_FORTRAN

void mpi_conn_checkpoint_(const int *handle, const char *directory, const char *label, int *ierror, size_t directory_len,
                          size_t label_len);
void mpi_conn_restart_(const int *handle, const char *directory, char *label, const int *max, int *comms, int *count,
                       int *ierror, size_t directory_len, size_t label_len);
#pragma weak mpi_conn_checkpoint_
#pragma weak mpi_conn_restart_

/* What Fortran calls MPI_CONN_MAX_LABEL. */
enum { LABEL_IN_FORTRAN = MPI_CONN_MAX_LABEL - 1 };

static void pad(char *to, size_t len, const char *from)
{
    memset(to, ' ', len);
    memcpy(to, from, strlen(from));
}

static int checkpoint_by_fortran(int handle, const char *directory, const char *label)
{
    char folder[4096], text[LABEL_IN_FORTRAN];
    int code;
    pad(folder, sizeof folder, directory);
    pad(text, sizeof text, label);
    mpi_conn_checkpoint_(&handle, folder, text, &code, sizeof folder, sizeof text);
    return code;
}

static int restart_by_fortran(int handle, const char *directory, char *label, int max, MPI_Comm *comms, int *count)
{
    char folder[4096];
    int code, numbers[16], end = LABEL_IN_FORTRAN;
    CHECK(max < 16);
    numbers[max] = -7;
    memset(label, 'x', MPI_CONN_MAX_LABEL);
    pad(folder, sizeof folder, directory);
    mpi_conn_restart_(&handle, folder, label, &max, numbers, count, &code, sizeof folder, LABEL_IN_FORTRAN);
    CHECK(label[end] == 'x', "nothing is written behind the label");
    SAME(numbers[max], -7);
    while (end > 0 && label[end - 1] == ' ') --end;
    label[end] = 0;
    for (int i = 0; code == MPI_SUCCESS && i < *count; ++i) {
#ifdef MPI_ABI_VERSION
        comms[i] = MPI_Comm_fromint(numbers[i]);
#else
        comms[i] = MPI_Comm_f2c(numbers[i]);
#endif
    }
    return code;
}

#define MPI_Conn_checkpoint checkpoint_by_fortran
#define MPI_Conn_restart restart_by_fortran
#endif
