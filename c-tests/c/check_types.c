/* MPI_CONNECT_CHECK=types, as two halves of one rank: side 0 sends, side 1 receives with types that are the same, or not.
 * `off`: one side or both check nothing, and what differs arrives in silence. `speed`: half round trips. */
#include "sides.h"

enum { LARGE = 8192, ROOM = 2 * LARGE * (int)sizeof(double) };

enum how { SEND, SSEND, ISEND, BSEND, PERSISTENT, MATCHED, PARTITIONED, HOWS };

static char *out, *in;
static int quiet; /* nothing is checked */

static void meet(void)
{
    int word = 7, got = 0;
    OK(MPI_Sendrecv(&word, 1, MPI_INT, 0, 99, &got, 1, MPI_INT, 0, 99, inter, MPI_STATUS_IGNORE));
}

/* Not every MPI has all: what both have. */
static int has(enum how how)
{
#ifdef LAM_MPI
    int mine_has = how != MATCHED && how != PARTITIONED, both = 0;
#elif !defined HAVE_4
    int mine_has = how != PARTITIONED, both = 0;
#else
    int mine_has = 1, both = 0;
#endif
    (void)how;
    OK(MPI_Sendrecv(&mine_has, 1, MPI_INT, 0, 98, &both, 1, MPI_INT, 0, 98, inter, MPI_STATUS_IGNORE));
    return mine_has && both;
}

static void start(enum how how, int n, MPI_Datatype type, MPI_Request *request)
{
    switch (how) {
    case SSEND: OK(MPI_Issend(out, n, type, 0, 5, inter, request)); break;
    case BSEND: OK(MPI_Ibsend(out, n, type, 0, 5, inter, request)); break;
    case PERSISTENT:
        OK(MPI_Send_init(out, n, type, 0, 5, inter, request));
        OK(MPI_Start(request));
        break;
#ifdef HAVE_4
    case PARTITIONED:
        OK(MPI_Psend_init(out, 1, n, type, 0, 5, inter, MPI_INFO_NULL, request));
        OK(MPI_Start(request));
        OK(MPI_Pready(0, *request));
        break;
#endif
    default: OK(MPI_Isend(out, n, type, 0, 5, inter, request));
    }
}

static void post(enum how how, int n, MPI_Datatype type, MPI_Request *request)
{
    memset(in, 0, ROOM);
    if (how == PERSISTENT) {
        OK(MPI_Recv_init(in, n, type, 0, 5, inter, request));
        OK(MPI_Start(request));
        return;
    }
#ifdef HAVE_4
    if (how == PARTITIONED) {
        OK(MPI_Precv_init(in, 1, n, type, 0, 5, inter, MPI_INFO_NULL, request));
        OK(MPI_Start(request));
        return;
    }
#endif
#ifndef LAM_MPI
    if (how == MATCHED) {
        MPI_Message message;
        OK(MPI_Mprobe(0, 5, inter, &message, MPI_STATUS_IGNORE));
        OK(MPI_Imrecv(in, n, type, &message, request));
        return;
    }
#endif
    OK(MPI_Irecv(in, n, type, 0, 5, inter, request));
}

/* `sent` and `received`: what the error says; NULL: there is none. */
static void message(enum how how, int n, MPI_Datatype type, int room, MPI_Datatype into, const char *sent,
                    const char *received)
{
    for (int early = 0; early < 2; ++early) {
        MPI_Request request;
        int word = 3, bytes = 0;
        if (early && how == MATCHED) continue;
        if (side == 0) {
            kit_fill(out, ROOM, (uint64_t)n);
            if (early) OK(MPI_Recv(&word, 1, MPI_INT, 0, 6, inter, MPI_STATUS_IGNORE));
            start(how, n, type, &request);
            if (!early) OK(MPI_Send(&word, 1, MPI_INT, 0, 6, inter));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            if (early) post(how, room, into, &request);
            if (early) OK(MPI_Send(&word, 1, MPI_INT, 0, 6, inter));
            else OK(MPI_Recv(&word, 1, MPI_INT, 0, 6, inter, MPI_STATUS_IGNORE));
            if (!early) post(how, room, into, &request);
            if (sent && !quiet) {
                int code = MPI_Wait(&request, MPI_STATUS_IGNORE);
                FAILS_SAYING(code, "from rank 0 of job 'air' with tag 5", sent, received);
                SAME(kit_class(code), MPI_ERR_TYPE);
                if (n == 4 && !early && how == SEND) printf("TEXT %s\n", kit_error(code));
            } else {
                OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                MPI_Type_size(into, &bytes);
                MPI_Aint lower, extent, into_extent;
                MPI_Type_get_extent(into, &lower, &into_extent);
                int dense = into_extent == bytes;
                MPI_Type_size(type, &bytes);
                MPI_Type_get_extent(type, &lower, &extent);
                if (dense && extent == bytes) HOLDS(in, (size_t)bytes * (size_t)n, (uint64_t)n);
            }
        }
        if (request != MPI_REQUEST_NULL) OK(MPI_Request_free(&request));
    }
}

static void differ(void)
{
    for (enum how how = SEND; how < HOWS; ++how) {
        if (!has(how)) continue;
        message(how, 4, MPI_DOUBLE, 8, MPI_INT, "MPI_DOUBLE x 4 sent", "MPI_INT x 8 received");
        message(how, LARGE, MPI_DOUBLE, 2 * LARGE, MPI_INT, "MPI_DOUBLE x 8192 sent", "MPI_INT x 16384 received");
        message(how, LARGE, MPI_INT, LARGE, MPI_FLOAT, "MPI_INT x 8192 sent", "MPI_FLOAT x 8192 received");
        message(how, 8, MPI_BYTE, 1, MPI_DOUBLE, "MPI_BYTE x 8 sent", "MPI_DOUBLE x 1 received");
    }
    message(SEND, 1, MPI_DOUBLE_INT, 3, MPI_INT, "MPI_DOUBLE x 1, MPI_INT x 1 sent", "MPI_INT x 3 received");
}

/* (double, 3 ints), nested: three of them, and one more int. */
static MPI_Datatype structure(int last)
{
    struct { double d; int i[3]; } one;
    MPI_Datatype parts[2] = {MPI_DOUBLE, MPI_INT}, made, whole, all[2];
    int lengths[2] = {1, 3}, outer[2] = {3, 1};
    MPI_Aint places[2] = {0, (char *)one.i - (char *)&one}, far[2] = {0, 3 * sizeof one};
    OK(MPI_Type_create_struct(2, lengths, places, parts, &made));
    all[0] = made;
    all[1] = last ? MPI_INT : MPI_FLOAT;
    OK(MPI_Type_create_struct(2, outer, far, all, &whole));
    OK(MPI_Type_commit(&whole));
    OK(MPI_Type_free(&made));
    return whole;
}

static void derived(void)
{
    MPI_Datatype ints = structure(1), floats = structure(0), row;
    OK(MPI_Type_vector(5, 2, 4, MPI_DOUBLE, &row));
    OK(MPI_Type_commit(&row));
    message(SEND, 1, ints, 1, ints, NULL, NULL);
    message(SEND, 10, ints, 30, ints, NULL, NULL);
    message(SEND, 100, ints, 120, ints, NULL, NULL);
    message(SEND, 2, ints, 2, floats, "(MPI_DOUBLE x 1, MPI_INT x 3) x 3, MPI_INT x 1) x 2 sent", "MPI_FLOAT x 1");
    message(SEND, 200, floats, 200, ints, "MPI_FLOAT x 1) x 200 sent", "MPI_INT x 1) x 200 received");
    /* Another way to say the same values. */
    message(SEND, 20, MPI_DOUBLE, 2, row, NULL, NULL);
    message(SEND, 2, row, 20, MPI_DOUBLE, NULL, NULL);
    message(SEND, 2, row, 40, MPI_INT, "MPI_DOUBLE x 20 sent", "MPI_INT x 40 received");
    message(SEND, 3, MPI_DOUBLE_INT, 3, MPI_DOUBLE_INT, NULL, NULL);
    /* So many different parts that only a hash of them is sent. */
    int lengths[1000], places[1000];
    MPI_Datatype one, other;
    for (int i = 0; i < 1000; ++i) lengths[i] = 1 + i % 3, places[i] = 5 * i;
    OK(MPI_Type_indexed(1000, lengths, places, MPI_INT, &one));
    OK(MPI_Type_commit(&one));
    MPI_Datatype kinds[500];
    int ones[500];
    MPI_Aint far[500];
    for (int i = 0; i < 500; ++i) kinds[i] = i % 2 ? MPI_INT : i == 498 ? MPI_FLOAT : MPI_SHORT, ones[i] = 1, far[i] = 8 * i;
    OK(MPI_Type_create_struct(500, ones, far, kinds, &other));
    OK(MPI_Type_commit(&other));
    message(SEND, 1, one, 2, one, NULL, NULL);
    message(SEND, 1, other, 1, other, NULL, NULL);
    message(SEND, 1, other, 1, one, "MPI_SHORT x 1, MPI_INT x 1, MPI_SHORT x 1", " received");
    OK(MPI_Type_free(&one));
    OK(MPI_Type_free(&other));
    OK(MPI_Type_free(&ints));
    OK(MPI_Type_free(&floats));
    OK(MPI_Type_free(&row));
}

static void agree(void)
{
    for (enum how how = SEND; how < HOWS; ++how) {
        if (!has(how)) continue;
        message(how, 0, MPI_DOUBLE, 4, MPI_INT, NULL, NULL);
        message(how, 1, MPI_DOUBLE, 1, MPI_DOUBLE, NULL, NULL);
        message(how, 3, MPI_INT, 7, MPI_INT, NULL, NULL);
        message(how, LARGE, MPI_DOUBLE, LARGE + 5, MPI_DOUBLE, NULL, NULL);
        message(how, 5, MPI_BYTE, 9, MPI_BYTE, NULL, NULL);
    }
    message(SEND, 16, MPI_PACKED, 2, MPI_DOUBLE, NULL, NULL);
    message(SEND, 2, MPI_DOUBLE, 16, MPI_PACKED, NULL, NULL);
    message(SEND, 4, MPI_LONG, 4, MPI_LONG_LONG_INT, NULL, NULL);
    /* A type that was freed, and its handle used again for another. */
    for (int i = 0; i < 4; ++i) {
        MPI_Datatype type;
        OK(MPI_Type_contiguous(3, i % 2 ? MPI_INT : MPI_DOUBLE, &type));
        OK(MPI_Type_commit(&type));
        message(SEND, 2, type, 2, type, NULL, NULL);
        OK(MPI_Type_free(&type));
    }
    /* Longer than the buffer: both lengths are told, and both types. */
    MPI_Status status;
    int count = -1;
    if (side == 0)
        OK(MPI_Send(out, 8, MPI_DOUBLE, 0, 5, inter));
    else {
        int code = MPI_Recv(in, 5, MPI_DOUBLE, 0, 5, inter, &status);
        FAILS_SAYING(code, "has 64 bytes, and the buffer only 40 (MPI_DOUBLE x 8 sent, MPI_DOUBLE x 5 received)");
        SAME(kit_class(code), MPI_ERR_TRUNCATE);
        OK(MPI_Get_count(&status, MPI_DOUBLE, &count));
        SAME(count, 5);
    }
}

/* Fortran's types in C are the same where they mean the same. */
static void of_fortran(void)
{
    message(SEND, 3, MPI_INTEGER, 3, MPI_INT, NULL, NULL);
    message(SEND, 3, MPI_REAL, 3, MPI_FLOAT, NULL, NULL);
    message(SEND, 3, MPI_DOUBLE, 3, MPI_DOUBLE_PRECISION, NULL, NULL);
    message(SEND, 3, MPI_CHARACTER, 3, MPI_CHAR, NULL, NULL);
    message(SEND, 6, MPI_REAL, 6, MPI_INT, "MPI_REAL x 6 sent", "MPI_INT x 6 received");
    message(SEND, 3, MPI_INTEGER, 3, MPI_LOGICAL, "MPI_INTEGER x 3 sent", "MPI_LOGICAL x 3 received");
    message(SEND, 3, MPI_DOUBLE_PRECISION, 6, MPI_REAL, "MPI_DOUBLE_PRECISION x 3 sent", "MPI_REAL x 6 received");
    message(SEND, 3, MPI_COMPLEX, 3, MPI_DOUBLE, "MPI_COMPLEX x 3 sent", "MPI_DOUBLE x 3 received");
    message(SEND, 3, MPI_COMPLEX, 4, MPI_COMPLEX, NULL, NULL);
}

/* Types that are longer to tell than the text of an error, of both sides. */
static void long_to_tell(void)
{
    MPI_Datatype kinds[60], one, other;
    int ones[60];
    MPI_Aint far[60];
    for (int i = 0; i < 60; ++i) kinds[i] = i % 2 ? MPI_INT : MPI_SHORT, ones[i] = 1, far[i] = 8 * i;
    OK(MPI_Type_create_struct(60, ones, far, kinds, &one));
    OK(MPI_Type_commit(&one));
    kinds[0] = MPI_DOUBLE;
    OK(MPI_Type_create_struct(60, ones, far, kinds, &other));
    OK(MPI_Type_commit(&other));
    MPI_Status status;
    if (side == 0) {
        OK(MPI_Send(out, 3, one, 0, 32767, inter));
        OK(MPI_Send(out, 3, MPI_INT, 0, 32767, inter));
    } else {
        int code = MPI_Recv(in, 3, other, 0, 32767, inter, &status);
        FAILS_SAYING(code, "MPI_Recv: the message from rank 0 of job 'aaaa", "...' with tag 32767", ": (MPI_SHORT x 1, ",
                     " sent, (MPI_DOUBLE x 1, ", " received");
        code = MPI_Recv(in, 3, other, 0, 32767, inter, &status);
        FAILS_SAYING(code, ": MPI_INT x 3 sent, (MPI_DOUBLE x 1, MPI_INT x 1", " received");
        printf("TEXT %s\n", kit_error(code));
    }
    OK(MPI_Type_free(&one));
    OK(MPI_Type_free(&other));
}

/* The other half is in Fortran: `fortran.F90`. What comes of it, and what goes to it. */
static void to_fortran(void)
{
    static const struct { int right; const char *sent; } all[] = {
        {1, NULL}, {1, NULL}, {1, NULL}, {0, "MPI_INTEGER x 4 sent, MPI_FLOAT x 4 received"},
        {0, "MPI_REAL x 4 sent, MPI_INT x 4 received"}, {0, "MPI_DOUBLE_PRECISION x 4 sent, MPI_FLOAT x 8 received"},
    };
    MPI_Datatype into[] = {MPI_INT, MPI_FLOAT, MPI_DOUBLE, MPI_FLOAT, MPI_INT, MPI_FLOAT};
    int ints[4] = {1, 2, 3, 4};
    float floats[8];
    double doubles[4];
    for (int i = 0; i < 6; ++i) {
        void *room = i == 0 || i == 4 ? (void *)ints : i == 2 ? (void *)doubles : floats;
        int code = MPI_Recv(room, i == 5 ? 8 : 4, into[i], 0, i, inter, MPI_STATUS_IGNORE);
        if (all[i].right) SAME(code, MPI_SUCCESS);
        else {
            FAILS_SAYING(code, all[i].sent);
            SAME(kit_class(code), MPI_ERR_TYPE);
        }
        if (i < 3) for (int k = 0; k < 4; ++k) CHECK((i == 0 ? ints[k] : i == 1 ? floats[k] : doubles[k]) == k + 1);
    }
    for (int k = 0; k < 4; ++k) ints[k] = k + 1, floats[k] = (float)k + 1, doubles[k] = k + 1;
    OK(MPI_Send(ints, 4, MPI_INT, 0, 0, inter));
    OK(MPI_Send(floats, 4, MPI_FLOAT, 0, 1, inter));
    OK(MPI_Send(doubles, 4, MPI_DOUBLE, 0, 2, inter));
    OK(MPI_Send(floats, 4, MPI_FLOAT, 0, 3, inter));
    OK(MPI_Send(doubles, 2, MPI_DOUBLE, 0, 4, inter));
    OK(MPI_Send(ints, 4, MPI_INT, 0, 5, inter));
}

/* One side or both have it off. */
static void off(void)
{
    quiet = 1;
    differ();
}

static int longer_first(const void *a, const void *b) { return (*(double *)a > *(double *)b) - (*(double *)a < *(double *)b); }

static void speed(void)
{
    for (int bytes = 8; bytes <= 65536; bytes *= 8192) {
        double batch[15];
        int n = bytes / 8, times = bytes == 8 ? 400 : 100;
        for (int b = 0; b < 15; ++b) {
            double start = kit_ms();
            for (int i = 0; i < times; ++i) {
                if (side == 0) MPI_Send(out, n, MPI_DOUBLE, 0, 1, inter);
                MPI_Recv(in, n, MPI_DOUBLE, 0, 1, inter, MPI_STATUS_IGNORE);
                if (side == 1) MPI_Send(out, n, MPI_DOUBLE, 0, 1, inter);
            }
            batch[b] = (kit_ms() - start) * 1e3 / times / 2;
        }
        qsort(batch, 15, sizeof *batch, longer_first);
        if (side == 0) printf("HALF %d %.3f\n", bytes, batch[7]);
    }
}

static const struct kit_section sections[] = {
    {"differ", differ}, {"derived", derived}, {"agree", agree}, {"of-fortran", of_fortran}, {"to-fortran", to_fortran}, {"long", long_to_tell}, {"off", off}, {"speed", speed},
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    out = kit_alloc(ROOM);
    in = kit_alloc(ROOM);
    char *space = kit_alloc(4 * ROOM);
    MPI_Buffer_attach(space, 4 * ROOM);
    sides_join(argc, argv);
    sides_run(SECTIONS(sections), argv, meet);
    return sides_end();
}
