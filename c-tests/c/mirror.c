/* The C half of a pair of jobs whose other half is half.F90: `mirror MINE THEIRS`. */
#include "kit.h"

static MPI_Comm inter = MPI_COMM_NULL;
static int me;

enum { LONG = 50000 };

static void put(int value, int tag) { OK(MPI_Send(&value, 1, MPI_INT, me, tag, inter)); }
static void get(int want, int tag)
{
    int value = -1;
    OK(MPI_Recv(&value, 1, MPI_INT, me, tag, inter, MPI_STATUS_IGNORE));
    SAME(value, want);
}

static void words(void)
{
    for (int i = 1; i <= 2; ++i) {
        get(40 + i, i);
        get(50 + i, i);
        put(60 + i, 10 + i);
        put(70 + i, i);
    }
    MPI_Status status;
    int n = -1;
    OK(MPI_Recv(NULL, 0, MPI_INT, me, 3, inter, &status));
    OK(MPI_Get_count(&status, MPI_INT, &n));
    SAME(n, 0);
    OK(MPI_Send(NULL, 0, MPI_INT, me, 3, inter));
}

/* Numbers that begin at `from` and grow by `step`, there and back. */
static void doubles(int tag, int count, double from, double step)
{
    double x[8];
    OK(MPI_Recv(x, count, MPI_DOUBLE, me, tag, inter, MPI_STATUS_IGNORE));
    for (int i = 0; i < count; ++i) CHECK(x[i] == from + i * step, "element %d of %d is %g", i, tag, x[i]);
    OK(MPI_Send(x, count, MPI_DOUBLE, me, tag, inter));
}

static void floats(int tag, float from)
{
    float x[4];
    OK(MPI_Recv(x, 4, MPI_FLOAT, me, tag, inter, MPI_STATUS_IGNORE));
    for (int i = 0; i < 4; ++i) CHECK(x[i] == from + (float)i * 0.25f, "element %d of %d is %g", i, tag, (double)x[i]);
    OK(MPI_Send(x, 4, MPI_FLOAT, me, tag, inter));
}

static void types(void)
{
    int x[4];
    char text[11];
    OK(MPI_Recv(x, 4, MPI_INT, me, 20, inter, MPI_STATUS_IGNORE));
    for (int i = 0; i < 4; ++i) SAME(x[i], 2001 + i);
    OK(MPI_Send(x, 4, MPI_INT, me, 20, inter));
    floats(21, 21.25f);
    doubles(22, 4, 22.25, 0.25);
    doubles(23, 4, 23.25, 0.25);
    OK(MPI_Recv(x, 4, MPI_INT, me, 24, inter, MPI_STATUS_IGNORE));
    CHECK(x[0] && !x[1] && !x[2] && x[3]);
    OK(MPI_Send(x, 4, MPI_INT, me, 24, inter));
    floats(25, 25.25f);
    OK(MPI_Recv(text, 11, MPI_CHAR, me, 26, inter, MPI_STATUS_IGNORE));
    CHECK(!memcmp(text, "air & ocean", 11));
    OK(MPI_Send(text, 11, MPI_CHAR, me, 26, inter));
    doubles(27, 4, 27.25, 0.25);
    doubles(28, 5, 28.25, 0.25);
    doubles(29, 3, 29.25, 0.25);
}

static void bottom(void)
{
    get(3000 + me, 30);
    put(3001 + me, 30);
}

static int value(int how, int message, int i) { return how * 10000000 + message * 1000000 + i; }

static void requests(void)
{
    int *buffer = kit_alloc(LONG * sizeof(int));
    for (int how = 1; how <= 9; ++how) {
        int wrong = 0;
        OK(MPI_Recv(buffer, 3, MPI_INT, me, 100 * how + 3, inter, MPI_STATUS_IGNORE));
        for (int i = 0; i < 3; ++i) SAME(buffer[i], value(how, 3, i + 1));
        OK(MPI_Recv(buffer, LONG, MPI_INT, me, 100 * how + 4, inter, MPI_STATUS_IGNORE));
        for (int i = 0; i < LONG; ++i) wrong += buffer[i] != value(how, 4, i + 1);
        SAME(wrong, 0);
        for (int i = 0; i < LONG; ++i) buffer[i] = value(how, 2, i + 1);
        OK(MPI_Send(buffer, LONG, MPI_INT, me, 100 * how + 2, inter));
        for (int i = 0; i < 4; ++i) buffer[i] = value(how, 1, i + 1);
        OK(MPI_Send(buffer, 4, MPI_INT, me, 100 * how + 1, inter));
    }
    free(buffer);
}

static void persistent(void)
{
    for (int how = 1; how <= 8; ++how) {
        put(8100 + 10 * how + me, 81);
        get(8200 + 10 * how + me, 82);
    }
}

static void probes(void)
{
    double field[7];
    int out, in = -1;
    for (int i = 0; i < 7; ++i) field[i] = 50.25 + 0.25 * i;
    OK(MPI_Send(field, 7, MPI_DOUBLE, me, 50, inter));
    put(5100 + me, 51);
    for (int k = 0; k < 2; ++k) {
        out = 5300 + 100 * k + me;
        OK(MPI_Sendrecv(&out, 1, MPI_INT, me, 52 + k, &in, 1, MPI_INT, me, 52 + k, inter, MPI_STATUS_IGNORE));
        SAME(in, 5200 + me);
    }
}

static void errors(void)
{
    int four[4] = {1, 2, 3, 4};
    OK(MPI_Send(four, 4, MPI_INT, me, 70, inter));
    OK(MPI_Send(four, 4, MPI_INT, me, 71, inter));
    put(72, 72);
}

int main(int argc, char **argv)
{
    int handle, n;
    if (argc != 3) return 2;
    kit_label = argv[1];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &kit_rank);
    me = kit_rank;
    OK(MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
    OK(MPI_Conn_intercomm_create(handle, argv[2], &inter));
    OK(MPI_Comm_remote_size(inter, &n));
    words();
    types();
    bottom();
    requests();
    persistent();
    probes();
    errors();
    OK(MPI_Conn_remove(handle));
    OK(MPI_Comm_free(&inter));
    int code = kit_end();
    MPI_Finalize();
    return code;
}
