/* The corners of datatypes: `corners MINE THEIRS SIDE`. Side 0 sends, side 1 receives, unless a case says otherwise. */
#include "kit.h"

static MPI_Comm inter;
static int side;

#define SENDS (side == 0)

static void send_to(const void *buf, int count, MPI_Datatype type, int tag)
{
    OK(MPI_Send((void *)buf, count, type, 0, tag, inter));
}

static void receive(void *buf, int count, MPI_Datatype type, int tag, int bytes)
{
    MPI_Status status;
    int got = -1;
    OK(MPI_Recv(buf, count, type, 0, tag, inter, &status));
    OK(MPI_Get_count(&status, MPI_BYTE, &got));
    SAME(got, bytes);
}

/* Sent, or received: nothing either way, and whatever the address. */
static void nothing(MPI_Datatype type, int tag)
{
    OK(MPI_Type_commit(&type));
    for (int count = 0; count <= 5; count += 5)
        if (SENDS) send_to(NULL, count, type, tag);
        else receive(NULL, count, type, tag, 0);
    OK(MPI_Type_free(&type));
}

static void zero_counts(void)
{
    MPI_Datatype type, ints[2] = {MPI_INT, MPI_INT}, empty;
    int none[2] = {0, 0}, at[2] = {0, 3}, some[3] = {0, 2, 0}, steps[3] = {9, 1, -9};
    MPI_Aint far[2] = {0, 40};
    OK(MPI_Type_contiguous(0, MPI_INT, &type));
    nothing(type, 1);
    OK(MPI_Type_vector(0, 3, 5, MPI_INT, &type));
    nothing(type, 2);
    OK(MPI_Type_vector(3, 0, 5, MPI_INT, &type));
    nothing(type, 3);
    OK(MPI_Type_create_hvector(0, 1, 8, MPI_INT, &type));
    nothing(type, 4);
    OK(MPI_Type_indexed(0, none, at, MPI_INT, &type));
    nothing(type, 5);
    OK(MPI_Type_indexed(2, none, at, MPI_INT, &type));
    nothing(type, 6);
    OK(MPI_Type_create_hindexed(2, none, far, MPI_INT, &type));
    nothing(type, 7);
    OK(MPI_Type_create_struct(0, none, far, ints, &type));
    nothing(type, 8);
    OK(MPI_Type_create_struct(2, none, far, ints, &type));
    nothing(type, 9);
    OK(MPI_Type_create_resized(MPI_BYTE, 0, 64, &empty));
    OK(MPI_Type_contiguous(0, empty, &type));
    nothing(type, 10);
    OK(MPI_Type_free(&empty));
    /* Empty blocks beside full ones. */
    OK(MPI_Type_indexed(3, some, steps, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    int buffer[4] = {1, 2, 3, 4};
    if (SENDS) send_to(buffer, 1, type, 11);
    else {
        memset(buffer, 0, sizeof buffer);
        receive(buffer, 1, type, 11, 8);
        CHECK(buffer[0] == 0 && buffer[1] == 2 && buffer[2] == 3 && buffer[3] == 0);
    }
    OK(MPI_Type_free(&type));
    /* No elements of a type that has some. */
    if (SENDS) send_to(NULL, 0, MPI_DOUBLE, 12);
    else receive(NULL, 0, MPI_DOUBLE, 12, 0);
}

static void bottom(void)
{
    enum { MANY = 50000 };
    static double sparse[2 * MANY], dense[MANY];
    int one = 4711, lengths[3] = {1, MANY, MANY};
    MPI_Aint at[3];
    MPI_Datatype type, column, parts[3] = {MPI_INT, MPI_DATATYPE_NULL, MPI_DOUBLE};
    OK(MPI_Type_create_resized(MPI_DOUBLE, 0, 16, &column));
    parts[1] = column;
    OK(MPI_Get_address(&one, &at[0]));
    OK(MPI_Get_address(sparse, &at[1]));
    OK(MPI_Get_address(dense, &at[2]));
    OK(MPI_Type_create_struct(3, lengths, at, parts, &type));
    OK(MPI_Type_commit(&type));
    int bytes = (int)sizeof one + 2 * MANY * (int)sizeof(double);
    if (SENDS) {
        for (int i = 0; i < MANY; ++i) sparse[2 * i] = i, sparse[2 * i + 1] = -1, dense[i] = i + 0.5;
        send_to(MPI_BOTTOM, 1, type, 20);
    } else {
        for (int i = 0; i < MANY; ++i) sparse[2 * i + 1] = -2;
        one = 0;
        receive(MPI_BOTTOM, 1, type, 20, bytes);
        SAME(one, 4711);
        int wrong = 0;
        for (int i = 0; i < MANY; ++i) wrong += sparse[2 * i] != i || sparse[2 * i + 1] != -2 || dense[i] != i + 0.5;
        SAME(wrong, 0);
    }
    OK(MPI_Type_free(&column));
    OK(MPI_Type_free(&type));
    /* A null pointer and no addresses. */
    OK(MPI_Type_vector(2, 1, 3, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    if (SENDS) REFUSED(MPI_Send(NULL, 1, type, 0, 21, inter), MPI_ERR_BUFFER);
    else REFUSED(MPI_Recv(NULL, 1, type, 0, 21, inter, MPI_STATUS_IGNORE), MPI_ERR_BUFFER);
    OK(MPI_Type_free(&type));
}

/* From the middle of an array, before it and behind it. */
static void backwards(void)
{
    enum { N = 64 };
    int cells[2 * N + 1], lengths[2] = {3, 2}, at[2] = {-N, N - 1};
    MPI_Datatype down, type;
    OK(MPI_Type_vector(N, 1, -1, MPI_INT, &down)); /* N, N - 1, … 1, seen from cell N */
    OK(MPI_Type_commit(&down));
    OK(MPI_Type_indexed(2, lengths, at, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    for (int i = 0; i <= 2 * N; ++i) cells[i] = SENDS ? i : -1;
    if (SENDS) {
        send_to(cells + N, 1, down, 30);
        send_to(cells + N, 1, type, 31);
    } else {
        int up[N];
        receive(up, N, MPI_INT, 30, sizeof up);
        for (int i = 0; i < N; ++i) SAME(up[i], N - i);
        receive(cells + N, 1, type, 31, 20);
        for (int i = 0; i <= 2 * N; ++i) SAME(cells[i], i < 3 || i == 2 * N - 1 || i == 2 * N ? i : -1);
    }
    OK(MPI_Type_free(&down));
    OK(MPI_Type_free(&type));
}

/* A message that is longer than the receive's type, by less than a block and by much. */
static void too_long(void)
{
    enum { BLOCKS = 9000, CELLS = 5 * BLOCKS };
    MPI_Datatype type;
    OK(MPI_Type_vector(BLOCKS, 2, 5, MPI_SHORT, &type));
    OK(MPI_Type_commit(&type));
    for (int count = 1; count <= BLOCKS; count *= BLOCKS) { /* eager; then rendezvous */
        MPI_Datatype fits;
        OK(MPI_Type_vector(count, 2, 5, MPI_SHORT, &fits));
        OK(MPI_Type_commit(&fits));
        for (int more = 1; more <= 70000; more += 69999) {
            int room = 2 * count, length = room + more;
            short *cells = kit_alloc((CELLS + 70000) * sizeof *cells);
            if (SENDS) {
                for (int i = 0; i < length; ++i) cells[i] = (short)i;
                send_to(cells, length, MPI_SHORT, 40);
            } else {
                REFUSED(MPI_Recv(cells, 1, fits, 0, 40, inter, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
                int wrong = 0;
                for (int i = 0; i < CELLS + 70000; ++i)
                    if (i / 5 >= count || i % 5 >= 2) wrong += cells[i] != (short)0xA5A5;
                SAME(wrong, 0);
            }
            free(cells);
        }
        OK(MPI_Type_free(&fits));
    }
    OK(MPI_Type_free(&type));
}

/* Types that are freed while messages of theirs are under way, and others made in their place. */
static void freed(void)
{
    enum { MESSAGES = 20, N = 6000 };
    static double cells[MESSAGES][3 * N];
    MPI_Request requests[MESSAGES];
    for (int m = 0; m < MESSAGES; ++m) {
        MPI_Datatype pair, type, other;
        int lengths[2] = {N, N};
        MPI_Aint at[2] = {0, (MPI_Aint)(2 * N * sizeof(double))};
        MPI_Datatype parts[2];
        for (int i = 0; i < 3 * N; ++i) cells[m][i] = SENDS ? m * 1e6 + i : -1;
        OK(MPI_Type_create_resized(MPI_DOUBLE, 0, 2 * sizeof(double), &pair));
        parts[0] = pair, parts[1] = MPI_DOUBLE;
        OK(MPI_Type_create_struct(2, lengths, at, parts, &type));
        OK(MPI_Type_free(&pair));
        OK(MPI_Type_commit(&type));
        if (SENDS) OK(MPI_Isend(cells[m], 1, type, 0, 50 + m, inter, &requests[m]));
        else OK(MPI_Irecv(cells[m], 1, type, 0, 50 + m, inter, &requests[m]));
        OK(MPI_Type_free(&type));
        OK(MPI_Type_vector(m + 1, 1, 2, MPI_CHAR, &other));
        OK(MPI_Type_free(&other));
    }
    OK(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE));
    if (SENDS) return;
    int wrong = 0;
    for (int m = 0; m < MESSAGES; ++m)
        for (int i = 0; i < 3 * N; ++i)
            wrong += cells[m][i] != (i >= 2 * N || i % 2 == 0 ? m * 1e6 + i : -1);
    SAME(wrong, 0);
}

/* The MPI gives the same handles again: each means what it was made as last. */
static void reused(void)
{
    enum { ROUNDS = 300 };
    MPI_Datatype last = MPI_DATATYPE_NULL;
    int same = 0;
    for (int r = 0; r < ROUNDS; ++r) {
        MPI_Datatype type;
        int cells[64], gap = 1 + r % 7, lengths[2] = {1, 2}, at[2] = {r % 5, r % 5 + 2 + gap};
        if (r % 2) OK(MPI_Type_vector(3, 1, gap, MPI_INT, &type));
        else OK(MPI_Type_indexed(2, lengths, at, MPI_INT, &type));
        OK(MPI_Type_commit(&type));
        same += type == last;
        last = type;
        for (int i = 0; i < 64; ++i) cells[i] = SENDS ? r * 100 + i : -1;
        if (SENDS) send_to(cells, 1, type, 60);
        else {
            receive(cells, 1, type, 60, 12);
            for (int i = 0, wrong = 0; i < 64; ++i) {
                int in = r % 2 ? i == 0 || i == gap || i == 2 * gap : i == at[0] || i == at[1] || i == at[1] + 1;
                if (cells[i] != (in ? r * 100 + i : -1) && !wrong++) kit_fail(__FILE__, __LINE__, "round %d cell %d", r, i);
            }
            ++kit_checks;
        }
        OK(MPI_Type_free(&type));
    }
    CHECK(same > 0, "no handle came twice: this shows nothing");
}

/* A tower of types; one that has more blocks than anybody would list; a list that has no order. */
static void deep_and_wide(void)
{
    enum { LEVELS = 150, WIDE = 3000000, LISTED = 20000 };
    MPI_Datatype type = MPI_INT, next;
    int two = 2, zero = 0;
    MPI_Aint at = 0;
    for (int l = 0; l < LEVELS; ++l) {
        if (l % 3 == 0) OK(MPI_Type_create_resized(type, 0, 4 * (l + 8), &next));
        else if (l % 3 == 1) OK(MPI_Type_contiguous(1, type, &next));
        else OK(MPI_Type_create_struct(1, (int[]){1}, &at, &type, &next));
        if (l > 0) OK(MPI_Type_free(&type));
        type = next;
    }
    OK(MPI_Type_indexed(1, &two, &zero, type, &next));
    OK(MPI_Type_commit(&next));
    MPI_Aint lower, extent;
    OK(MPI_Type_get_extent(type, &lower, &extent));
    int apart = (int)(extent / 4), *cells = kit_alloc((size_t)extent + 4);
    if (SENDS) {
        cells[0] = 17, cells[apart] = 19;
        send_to(cells, 1, next, 70);
    } else {
        receive(cells, 1, next, 70, 8);
        SAME(cells[0], 17);
        SAME(cells[apart], 19);
    }
    free(cells);
    OK(MPI_Type_free(&type));
    OK(MPI_Type_free(&next));

    OK(MPI_Type_vector(WIDE, 1, 2, MPI_SHORT, &type));
    OK(MPI_Type_commit(&type));
    short *wide = kit_alloc(2 * WIDE * sizeof *wide);
    if (SENDS) {
        for (int i = 0; i < WIDE; ++i) wide[2 * i] = (short)(i * 7);
        send_to(wide, 1, type, 71);
    } else {
        int wrong = 0;
        receive(wide, 1, type, 71, WIDE * (int)sizeof *wide);
        for (int i = 0; i < WIDE; ++i) wrong += wide[2 * i] != (short)(i * 7) || wide[2 * i + 1] != (short)0xA5A5;
        SAME(wrong, 0);
    }
    free(wide);
    OK(MPI_Type_free(&type));

    int *lengths = kit_alloc(LISTED * sizeof *lengths), *places = kit_alloc(LISTED * sizeof *places);
    for (int i = 0; i < LISTED; ++i) lengths[i] = 1 + i % 2, places[i] = (int)((long)i * 7919 % LISTED) * 3;
    OK(MPI_Type_indexed(LISTED, lengths, places, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    int *far = kit_alloc(3 * LISTED * sizeof *far);
    if (SENDS) {
        for (int i = 0; i < 3 * LISTED; ++i) far[i] = i;
        send_to(far, 1, type, 72);
    } else {
        int wrong = 0;
        receive(far, 1, type, 72, LISTED / 2 * 3 * 4);
        for (int i = 0; i < LISTED; ++i)
            for (int k = 0; k < 3; ++k)
                wrong += far[places[i] + k] != (k < lengths[i] ? places[i] + k : (int)0xA5A5A5A5);
        SAME(wrong, 0);
    }
    free(lengths), free(places), free(far);
    OK(MPI_Type_free(&type));
}

/* Types by Fortran's digits, where the MPI has them: they are nobody's to free. */
static void fortran_digits(void)
{
    int has = 0, there = 0;
    MPI_Datatype types[3] = {MPI_DATATYPE_NULL, MPI_DATATYPE_NULL, MPI_DATATYPE_NULL}, row;
#ifndef LAM_MPI
    MPI_Errhandler before;
    OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    has = MPI_Type_create_f90_real(6, 30, &types[0]) == MPI_SUCCESS &&
          MPI_Type_create_f90_complex(12, 100, &types[1]) == MPI_SUCCESS &&
          MPI_Type_create_f90_integer(9, &types[2]) == MPI_SUCCESS;
    for (int i = 0; i < 3; ++i) has = has && types[i] != MPI_DATATYPE_NULL;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, before));
    OK(MPI_Errhandler_free(&before));
#endif
    OK(MPI_Sendrecv(&has, 1, MPI_INT, 0, 80, &there, 1, MPI_INT, 0, 80, inter, MPI_STATUS_IGNORE));
    printf("F90 %d\n", has);
    if (!has || !there) return;
    static const int sizes[3] = {4, 16, 4};
    for (int i = 0; i < 3; ++i)
        for (int round = 0; round < 3; ++round) {
            char cells[256];
            OK(MPI_Type_vector(4, 1, 2, types[i], &row));
            OK(MPI_Type_commit(&row));
            MPI_Datatype sent = round ? row : types[i];
            int n = round ? 1 : 4, bytes = 4 * sizes[i], step = round ? 2 * sizes[i] : sizes[i];
            memset(cells, 0xA5, sizeof cells);
            if (SENDS) {
                kit_fill(cells, sizeof cells, (uint64_t)i);
                send_to(cells, n, sent, 81);
            } else {
                char want[256];
                kit_fill(want, sizeof want, (uint64_t)i);
                receive(cells, n, sent, 81, bytes);
                for (int e = 0; e < 4; ++e) SAME(memcmp(cells + e * step, want + e * step, (size_t)sizes[i]), 0);
            }
            OK(MPI_Type_free(&row));
        }
}

int main(int argc, char **argv)
{
    int handle;
    MPI_Init(&argc, &argv);
    if (argc != 4) {
        fprintf(stderr, "corners MINE THEIRS SIDE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    kit_label = argv[1], kit_rank = 0;
    side = atoi(argv[3]);
    OK(MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
    OK(MPI_Conn_intercomm_create(handle, argv[2], &inter));
    OK(MPI_Conn_remove(handle));
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    for (int turn = 0; turn < 2; ++turn, side = !side) {
        zero_counts();
        bottom();
        backwards();
        too_long();
        freed();
        reused();
        deep_and_wide();
        fortran_digits();
    }
    OK(MPI_Comm_free(&inter));
    int result = kit_end();
    MPI_Finalize();
    return result;
}
