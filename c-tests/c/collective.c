/* One half of a pair of jobs: `collective NAME OTHER SIDE SECTION...`. The collective calls that an inter-communicator
 * between jobs has: every rank checks what it gets. */
#include "sides.h"

enum { TAG = 77 };
static const int sizes[] = {0, 1, 1000, 4097, 300000};

/* Every rank of one side is the root, then every rank of the other; user's messages are under way at the same time. */
static void bcast(void)
{
    for (int from = 0; from < 2; ++from)
        for (int root = 0; root < (from == side ? mine : theirs); ++root)
            for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; ++k) {
                int n = sizes[k], word = -1, sends = from == side && root == me;
                uint64_t seed = (uint64_t)from << 60 | (uint64_t)root << 40 | (uint64_t)n;
                int *data = kit_alloc((size_t)n * sizeof(int));
                MPI_Request early;
                OK(MPI_Irecv(&word, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &early));
                if (sends) kit_fill(data, (size_t)n * sizeof(int), seed);
                int as = from != side ? root : sends ? MPI_ROOT : MPI_PROC_NULL;
                OK(MPI_Bcast(data, n, MPI_INT, as, inter));
                if (from != side || sends) HOLDS(data, (size_t)n * sizeof(int), seed);
                /* The receive for anything got nothing of it; it gets this. */
                for (int r = me; r < theirs; r += mine) OK(MPI_Send(&n, 1, MPI_INT, r, TAG, inter));
                OK(MPI_Wait(&early, MPI_STATUS_IGNORE));
                SAME(word, n);
                OK(MPI_Barrier(inter));
                free(data);
            }
}

/* A column of a matrix, received as a row. */
static void bcast_of_types(void)
{
    enum { ROWS = 50, COLUMNS = 7 };
    double matrix[ROWS][COLUMNS], row[ROWS];
    MPI_Datatype column;
    OK(MPI_Type_vector(ROWS, 1, COLUMNS, MPI_DOUBLE, &column));
    OK(MPI_Type_commit(&column));
    for (int from = 0; from < 2; ++from) {
        for (int i = 0; i < ROWS; ++i) {
            row[i] = -1;
            for (int k = 0; k < COLUMNS; ++k) matrix[i][k] = 100 * i + k;
        }
        if (from == side)
            OK(MPI_Bcast(&matrix[0][3], 1, column, me == mine - 1 ? MPI_ROOT : MPI_PROC_NULL, inter));
        else {
            OK(MPI_Bcast(row, ROWS, MPI_DOUBLE, theirs - 1, inter));
            for (int i = 0; i < ROWS; ++i) SAME((int)row[i], 100 * i + 3);
        }
    }
    OK(MPI_Type_free(&column));
}

/* Nobody leaves before the last has come, by the clock that all processes of the host have in common. */
static void barrier(void)
{
    for (int late = 0; late < 2; ++late) {
        int is_late = late == side && me == mine - 1;
        double came = 0, left;
        OK(MPI_Barrier(inter));
        if (is_late) {
            double start = kit_ms();
            while (kit_ms() < start + 300) {}
            came = kit_ms();
        }
        OK(MPI_Barrier(inter));
        left = kit_ms();
        if (late == side) {
            OK(MPI_Bcast(&came, 1, MPI_DOUBLE, is_late ? MPI_ROOT : MPI_PROC_NULL, inter));
            OK(MPI_Bcast(&came, 1, MPI_DOUBLE, mine - 1, MPI_COMM_WORLD));
        } else
            OK(MPI_Bcast(&came, 1, MPI_DOUBLE, theirs - 1, inter));
        CHECK(came > 0 && left >= came, "left %.0f ms before the last came", came - left);
    }
}

/* What is wrong with a call is told where it is wrong, and nothing moves; one that truncates fails on a whole side. */
static void faults(void)
{
    int in[4] = {0}, out[4] = {1, 2, 3, 4};
    OK(MPI_Barrier(inter));
    REFUSED(MPI_Bcast(in, 1, MPI_INT, theirs, inter), MPI_ERR_ROOT);
    REFUSED(MPI_Bcast(in, 1, MPI_INT, -77, inter), MPI_ERR_ROOT);
    OK(MPI_Barrier(inter));
    if (side == 0)
        OK(MPI_Bcast(out, 4, MPI_INT, me == 0 ? MPI_ROOT : MPI_PROC_NULL, inter));
    else
        REFUSED(MPI_Bcast(in, 2, MPI_INT, 0, inter), MPI_ERR_TRUNCATE);
    OK(MPI_Barrier(inter));
    bcast_of_types(); /* and all goes on */
}

/* One side leaves in the middle: all ranks of the other are told. */
static void left(void)
{
    int in = 0, gone = -1;
    OK(MPI_Conn_error_class(MPI_CONN_ERR_PEER_GONE, &gone));
    OK(MPI_Barrier(inter));
    parting = 1;
    if (side == 0) return;
    for (int tries = 0; tries < 2; ++tries) {
        int code = MPI_Bcast(&in, 1, MPI_INT, 0, inter);
        CHECK(code != MPI_SUCCESS);
        SAME(kit_class(code), gone);
    }
    CHECK(MPI_Barrier(inter) != MPI_SUCCESS);
}

static const struct kit_section sections[] = {
    {"bcast", bcast}, {"types", bcast_of_types}, {"barrier", barrier}, {"faults", faults}, {"left", left},
};

static void meet(void) { OK(MPI_Barrier(inter)); }

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    sides_join(argc, argv);
    sides_run(SECTIONS(sections), argv, meet);
    return sides_end();
}
