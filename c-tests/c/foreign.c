/* `foreign NAME`: joins peers that stand for machines which lay out data otherwise (c-tests/src/bin/foreign-peer.rs), and
 * exchanges values of all kinds with each, by all ways of receiving. The values of both sides come from one formula. */
#include "basics.h"
#include <limits.h>

static MPI_Comm inter;
static const struct machine *peer;
static int me;

/* What each machine has, as far as a program sees it in the sizes of what it probes, and in what is refused. */
static const struct machine {
    const char *name;
    int long_bytes, wide_fortran, pairs;
} machines[] = {{"old", 4, 0, 0}, {"windows", 4, 0, 0}, {"cray", 8, 1, 0}, {"power", 8, 0, 1}};

/* ---- the values, by the same formula as the peer's ---- */

static long long whole(int i) { return (i % 2 ? -1 : 1) * (37LL * (i % 500) + 5); }
static long long natural(int i) { return 37LL * (i % 500) + 5; }
static double broken(int i) { return 0.25 * (double)whole(i); }

enum kind { BYTE, CHAR, SHORT, USHORT, INT, UINT, LONG, ULONG, LLONG, ULLONG, FLOAT, DOUBLE, LDOUBLE, WCHAR, AINT, BOOL,
            INTEGER, LOGICAL, REAL, DPRECISION, COMPLEX, DCOMPLEX, DOUBLE_INT, LONG_INT, SHORT_INT, TWO_INT, KINDS };

static MPI_Datatype type_of(enum kind kind)
{
    MPI_Datatype all[KINDS] = {MPI_BYTE,    MPI_CHAR,    MPI_SHORT, MPI_UNSIGNED_SHORT,   MPI_INT,     MPI_UNSIGNED,
                               MPI_LONG,    MPI_UNSIGNED_LONG, MPI_LONG_LONG_INT, MPI_UNSIGNED_LONG_LONG, MPI_FLOAT,
                               MPI_DOUBLE,  MPI_LONG_DOUBLE, MPI_WCHAR, MPI_AINT, MPI_C_BOOL, MPI_INTEGER, MPI_LOGICAL,
                               MPI_REAL,    MPI_DOUBLE_PRECISION, MPI_COMPLEX, MPI_DOUBLE_COMPLEX, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_SHORT_INT, MPI_2INT};
    return all[kind];
}

static int bytes_of(enum kind kind)
{
    static const int all[KINDS] = {1, 1, 2, 2, 4, 4, 8, 8, 8, 8, 4, 8, 16, 4, 8, 1, 4, 4, 4, 8, 8, 16, 16, 16, 8, 8};
    return all[kind];
}

/* Writes the i-th value, and nothing where a type has a hole. */
static void put(enum kind kind, char *at, int i)
{
#define PUT(type, value) do { type v_ = (type)(value); memcpy(at, &v_, sizeof v_); } while (0)
    switch (kind) {
    case BYTE: PUT(unsigned char, i); break;
    case CHAR: PUT(char, i % 100); break;
    case SHORT: PUT(short, whole(i)); break;
    case USHORT: PUT(unsigned short, natural(i) * 3); break;
    case INT:
    case INTEGER: PUT(int, whole(i) * 100003); break;
    case UINT: PUT(unsigned, natural(i) * 200003); break;
    case LONG: PUT(long, whole(i) * 100003); break;
    case ULONG: PUT(unsigned long, natural(i) * 200003); break;
    case LLONG: PUT(long long, whole(i) * 1000000007); break;
    case ULLONG: PUT(unsigned long long, natural(i) * 1000000007); break;
    case FLOAT:
    case REAL: PUT(float, broken(i)); break;
    case DOUBLE:
    case DPRECISION: PUT(double, broken(i)); break;
    case LDOUBLE: {
        long double v = broken(i);
        memset(at, 0, 16); /* the last 6 bytes are no part of it */
        memcpy(at, &v, 10);
        break;
    }
    case WCHAR: PUT(wchar_t, natural(i) * 3); break;
    case AINT: PUT(MPI_Aint, whole(i) * 100003); break;
    case BOOL: PUT(unsigned char, i % 2); break;
    case LOGICAL: PUT(int, i % 2); break;
    case COMPLEX:
        put(FLOAT, at, i);
        put(FLOAT, at + 4, i + 3);
        break;
    case DCOMPLEX:
        put(DOUBLE, at, i);
        put(DOUBLE, at + 8, i + 3);
        break;
    case DOUBLE_INT:
    case LONG_INT:
        put(kind == DOUBLE_INT ? DOUBLE : LONG, at, i);
        put(INT, at + 8, i + 3);
        break;
    case SHORT_INT:
    case TWO_INT:
        put(kind == SHORT_INT ? SHORT : INT, at, i);
        put(INT, at + 4, i + 3);
        break;
    case KINDS: break;
    }
}

/* ---- the messages, in the peer's order ---- */

static const struct message {
    int fields;
    struct field {
        enum kind kind;
        int at, n;
    } of[6];
    int extent, count;
} messages[] = {
    {1, {{INT, 0, 1}}, 4, 1000},
    {1, {{LONG, 0, 1}}, 8, 1000},
    {1, {{ULONG, 0, 1}}, 8, 700},
    {1, {{DOUBLE, 0, 1}}, 8, 5000},
    {4, {{CHAR, 0, 3}, {DOUBLE, 8, 1}, {LONG, 16, 2}, {SHORT, 32, 1}}, 40, 300},
    {1, {{DOUBLE_INT, 0, 1}}, 16, 50},
    {1, {{LONG_INT, 0, 1}}, 16, 50},
    {1, {{LDOUBLE, 0, 1}}, 16, 40},
    {1, {{WCHAR, 0, 1}}, 4, 30},
    {1, {{AINT, 0, 1}}, 8, 20},
    {1, {{BOOL, 0, 1}}, 1, 9},
    {5, {{INTEGER, 0, 2}, {REAL, 8, 1}, {DPRECISION, 16, 1}, {COMPLEX, 24, 1}, {LOGICAL, 32, 1}}, 40, 60},
    {1, {{BYTE, 0, 1}}, 1, 64},
    {1, {{LONG, 0, 1}}, 24, 20000},
    {5, {{LLONG, 0, 1}, {USHORT, 8, 2}, {UINT, 12, 1}, {FLOAT, 16, 1}, {ULLONG, 24, 1}}, 32, 100},
    {1, {{LONG, 0, 1}}, 8, 0},
    {3, {{DCOMPLEX, 0, 1}, {SHORT_INT, 16, 1}, {TWO_INT, 24, 2}}, 40, 20},
};
enum { MESSAGES = sizeof messages / sizeof messages[0] };

/* A null handle: a type that this MPI lacks. */
static MPI_Datatype make_one(const struct message *m)
{
    MPI_Datatype types[6], inner, made;
    int lengths[6], size;
    MPI_Aint places[6];
    for (int f = 0; f < m->fields; ++f) {
        types[f] = type_of(m->of[f].kind);
        lengths[f] = m->of[f].n;
        places[f] = m->of[f].at;
        if (types[f] == MPI_DATATYPE_NULL) return MPI_DATATYPE_NULL;
        /* Without Fortran, its types have no size. */
        OK(MPI_Type_size(types[f], &size));
        if (size == 0) return MPI_DATATYPE_NULL;
    }
    OK(MPI_Type_create_struct(m->fields, lengths, places, types, &inner));
    OK(MPI_Type_create_resized(inner, 0, m->extent, &made));
    OK(MPI_Type_free(&inner));
    OK(MPI_Type_commit(&made));
    return made;
}

/* The whole message as one element, made in one of several ways. */
static MPI_Datatype make_all(const struct message *m, int how)
{
    MPI_Datatype one = make_one(m), made = one;
    if (one == MPI_DATATYPE_NULL) return one;
    int n = m->count, from = 0, *lengths = kit_alloc(sizeof(int) * (size_t)n), *steps = kit_alloc(sizeof(int) * (size_t)n);
    MPI_Aint *places = kit_alloc(sizeof(MPI_Aint) * (size_t)n);
    for (int i = 0; i < n; ++i) lengths[i] = 1, steps[i] = i, places[i] = (MPI_Aint)i * m->extent;
    switch (how % 6) {
    case 0: OK(MPI_Type_contiguous(n, one, &made)); break;
    case 1: OK(MPI_Type_vector(n, 1, 1, one, &made)); break;
    case 2: OK(MPI_Type_create_hvector(n, 1, m->extent, one, &made)); break;
    case 3: OK(MPI_Type_indexed(n, lengths, steps, one, &made)); break;
    case 4: OK(MPI_Type_create_hindexed(n, lengths, places, one, &made)); break;
    case 5: OK(MPI_Type_create_subarray(1, &n, &n, &from, MPI_ORDER_C, one, &made)); break;
    }
    OK(MPI_Type_commit(&made));
    OK(MPI_Type_free(&one));
    free(lengths), free(steps), free(places);
    return made;
}

/* The i-th value of a message that begins with value `first`. */
static void fill(const struct message *m, char *at, int first)
{
    for (int c = 0, i = first; c < m->count; ++c)
        for (int f = 0; f < m->fields; ++f)
            for (int k = 0; k < m->of[f].n; ++k, ++i)
                put(m->of[f].kind, at + (long)c * m->extent + m->of[f].at + k * bytes_of(m->of[f].kind), i);
}

/* ---- the ways of receiving ---- */

enum way { RECV, IRECV_WAIT, IRECV_TEST, SENDRECV, PERSISTENT, AGAIN, REPLACE, LOOKED_AT, WAITALL, MATCHED, IMATCHED, WAYS };

/* Other ways, where this MPI lacks one. */
#if MPI_VERSION < 3
#define MPI_Mprobe(source, tag, comm, message, status) MPI_Probe(source, tag, comm, status)
#define MPI_Mrecv(buf, count, type, message, status) MPI_Recv(buf, count, type, 0, tag, inter, status)
#define MPI_Imrecv(buf, count, type, message, request) MPI_Irecv(buf, count, type, 0, tag, inter, request)
typedef int MPI_Message;
#endif

static int tag_of(int m, enum way way) { return 16 * m + (way == AGAIN ? PERSISTENT : way); }

static void receive(enum way way, int tag, char *in, const char *out, const char *want, size_t bytes, int count,
                    MPI_Datatype type, MPI_Status *status)
{
    static MPI_Request kept;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Message message UNUSED;
    int flag = 0;
    switch (way) {
    case RECV: OK(MPI_Recv(in, count, type, 0, tag, inter, status)); break;
    case IRECV_WAIT:
        OK(MPI_Irecv(in, count, type, MPI_ANY_SOURCE, tag, inter, &request));
        OK(MPI_Wait(&request, status));
        break;
    case IRECV_TEST:
        OK(MPI_Irecv(in, count, type, 0, tag, inter, &request));
        while (!flag) POLL(MPI_Test(&request, &flag, status));
        break;
    case SENDRECV: OK(MPI_Sendrecv((void *)out, count, type, 0, tag, in, count, type, 0, tag, inter, status)); return;
    case PERSISTENT:
        OK(MPI_Recv_init(in, count, type, 0, tag, inter, &kept));
        OK(MPI_Start(&kept));
        OK(MPI_Wait(&kept, status));
        break;
    case AGAIN:
        OK(MPI_Start(&kept));
        OK(MPI_Wait(&kept, status));
        OK(MPI_Request_free(&kept));
        break;
    case REPLACE:
        memcpy(in, out, bytes);
        OK(MPI_Sendrecv_replace(in, count, type, 0, tag, 0, tag, inter, status));
        return;
    case LOOKED_AT:
        OK(MPI_Irecv(in, count, type, 0, tag, inter, &request));
#ifndef LAM_MPI
        while (!flag) POLL(MPI_Request_get_status(request, &flag, status));
        /* Complete, so the values are there. */
        CHECK(!memcmp(in, want, bytes));
#else
        (void)want;
#endif
        OK(MPI_Wait(&request, status));
        break;
    case WAITALL:
        OK(MPI_Irecv(in, count, type, 0, tag, inter, &request));
        OK(MPI_Waitall(1, &request, status));
        break;
    case MATCHED:
        OK(MPI_Mprobe(0, tag, inter, &message, status));
        OK(MPI_Mrecv(in, count, type, &message, status));
        break;
    case IMATCHED:
        OK(MPI_Mprobe(0, tag, inter, &message, status));
        OK(MPI_Imrecv(in, count, type, &message, &request));
        OK(MPI_Wait(&request, status));
        break;
    case WAYS: break;
    }
    OK(MPI_Send((void *)out, count, type, 0, tag, inter));
}

static void exchange(int m, enum way way, char *in)
{
    const struct message *of = &messages[m];
    size_t bytes = (size_t)of->extent * (size_t)of->count;
    int tag = tag_of(m, way), got = -1, size;
    MPI_Status status;
    int whole_in_one = of->count > 0 && (m + (int)way) % 2, count = whole_in_one ? 1 : of->count;
    MPI_Datatype type = whole_in_one ? make_all(of, m + (int)way / 2) : make_one(of);
    int refused = peer->pairs && of->of[0].kind == LDOUBLE;
    if (type == MPI_DATATYPE_NULL || refused) {
        if (refused) {
            REFUSED(MPI_Recv(in, count, type, 0, tag, inter, &status), MPI_ERR_TYPE);
            OK(MPI_Type_free(&type));
        }
        /* The peer knows by this that there is nothing to check. */
        char raw[8000];
        OK(MPI_Recv(raw, sizeof raw, MPI_BYTE, 0, tag, inter, &status));
        OK(MPI_Send(raw, 0, MPI_BYTE, 0, tag, inter));
        return;
    }
    char *out = kit_alloc(bytes), *want = kit_alloc(bytes);
    fill(of, out, 1);
    fill(of, want, 0);
    memset(in, 0xA5, bytes);
    receive(way, tag, in, out, want, bytes, count, type, &status);
    long long wrong = -1;
    for (size_t b = bytes; b-- > 0;)
        if (in[b] != want[b]) wrong = (long long)b;
    kit_checks += of->count;
    if (wrong >= 0)
        kit_fail(__FILE__, __LINE__, "%s, message %d, way %d: byte %lld is wrong", peer->name, m, way, wrong);
    SAME(status.MPI_SOURCE, 0);
    SAME(status.MPI_TAG, tag);
    OK(MPI_Get_count(&status, type, &got));
    SAME(got, count);
    OK(MPI_Type_size(type, &size));
    OK(MPI_Get_count(&status, MPI_BYTE, &got));
    SAME(got, size * count);
    OK(MPI_Type_free(&type));
    free(out);
    free(want);
}

/* ---- messages of another length than the buffer's, and what else there is to see ---- */

enum { PARTIAL = 1000, LONGER, PROBED, FREED, BEYOND, LAST, GO };

static void lengths(void)
{
    enum { N = 100 };
    long in[N], *v = kit_alloc(sizeof in);
    MPI_Status status;
    MPI_Request request;
    int got;
    /* Ten, and a part of one. */
    memset(in, 0xA5, sizeof in);
    OK(MPI_Recv(in, N, MPI_LONG, 0, PARTIAL, inter, &status));
    OK(MPI_Get_count(&status, MPI_LONG, &got));
    SAME(got, 10);
    for (int i = 0; i < N; ++i) SAME(in[i], i < 10 ? whole(i) * 100003 : (long)0xA5A5A5A5A5A5A5A5);
    /* Twenty of their longs would fit by their bytes, were they not counted as ours. */
    memset(in, 0xA5, sizeof in);
    REFUSED(MPI_Recv(in, 10, MPI_LONG, 0, LONGER, inter, &status), MPI_ERR_TRUNCATE);
    OK(MPI_Get_count(&status, MPI_LONG, &got));
    SAME(got, 10);
    for (int i = 0; i < 20; ++i) SAME(in[i], i < 10 ? whole(i) * 100003 : (long)0xA5A5A5A5A5A5A5A5);
    /* A probe tells the bytes that the other job sent. */
    OK(MPI_Probe(0, PROBED, inter, &status));
    OK(MPI_Get_count(&status, MPI_BYTE, &got));
    SAME(got, 12 * peer->long_bytes);
    OK(MPI_Recv(in, 12, MPI_LONG, 0, PROBED, inter, &status));
    OK(MPI_Get_count(&status, MPI_LONG, &got));
    SAME(got, 12);
    for (int i = 0; i < 12; ++i) SAME(in[i], whole(i) * 100003);
    /* Nobody waits for it, and it is converted all the same. */
    memset(v, 0, sizeof in);
    OK(MPI_Irecv(v, 5, MPI_LONG, 0, FREED, inter, &request));
    OK(MPI_Request_free(&request));
    OK(MPI_Send(&got, 1, MPI_INT, 0, GO, inter));
    while (*(volatile long *)&v[4] == 0) {
        int flag;
        POLL(MPI_Iprobe(0, GO, inter, &flag, &status));
    }
    for (int i = 0; i < 5; ++i) SAME(v[i], whole(i) * 100003);
    free(v);
    if (peer->wide_fortran) {
        int held[4] = {0};
        FAILS_SAYING(MPI_Recv(held, 4, MPI_INTEGER, 0, BEYOND, inter, &status), "MPI_Recv", "rank 0", "cannot hold");
        OK(MPI_Get_count(&status, MPI_INTEGER, &got));
        SAME(got, 4);
        CHECK(held[0] == 1 && held[1] == INT_MAX && held[2] == INT_MIN && held[3] == 7);
        REFUSED(MPI_Recv(held, 4, MPI_INTEGER, 0, BEYOND, inter, &status), MPI_ERR_TRUNCATE);
    }
}

/* Of every type it is known what it consists of, and that agrees with its size: else it would be refused. */
static void every_one(void)
{
    struct basic types[128];
    int n = every_type(types), size, flag;
    char room[64];
#ifndef LAM_MPI
    /* By Fortran's digits, where the MPI has them. */
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    if (MPI_Type_create_f90_real(6, 30, &types[n].type) == MPI_SUCCESS) types[n++].name = "f90_real";
    if (MPI_Type_create_f90_complex(12, 100, &types[n].type) == MPI_SUCCESS) types[n++].name = "f90_complex";
    if (MPI_Type_create_f90_integer(9, &types[n].type) == MPI_SUCCESS) types[n++].name = "f90_integer";
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
#endif
    for (int t = 0; t < n; ++t) {
        MPI_Request request;
        MPI_Status status;
        if (types[t].type == MPI_DATATYPE_NULL) continue;
        OK(MPI_Type_size(types[t].type, &size));
        if (size == 0 || (peer->pairs && strstr(types[t].name, "LONG_DOUBLE"))) continue;
        int code = MPI_Irecv(room, 1, types[t].type, 0, GO, inter, &request);
        CHECK(code == MPI_SUCCESS, "%s: %s", types[t].name, kit_error(code));
        if (code != MPI_SUCCESS) continue;
        OK(MPI_Cancel(&request));
        OK(MPI_Wait(&request, &status));
        OK(MPI_Test_cancelled(&status, &flag));
        SAME(flag, 1);
    }
}

int main(int argc, char **argv)
{
    int handle, integer;
    OK(MPI_Init(&argc, &argv));
    kit_label = argv[1];
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &kit_rank));
    me = kit_rank;
    OK(MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
    OK(MPI_Type_size(MPI_INTEGER, &integer));
    char *in = kit_alloc(24 * 20000);
    for (size_t p = 0; p < sizeof machines / sizeof machines[0]; ++p) {
        peer = &machines[p];
        OK(MPI_Conn_intercomm_create(handle, peer->name, &inter));
        OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
        for (int m = 0; m < MESSAGES; ++m)
            for (enum way way = 0; way < WAYS; ++way) exchange(m, way, in);
        lengths();
        every_one();
        OK(MPI_Send(&integer, 1, MPI_INT, 0, LAST, inter));
        OK(MPI_Comm_free(&inter));
    }
    /* Of this one nothing is known. */
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    FAILS_SAYING(MPI_Conn_intercomm_create(handle, "martian", &inter), "MPI_Conn_intercomm_create", "martian", "not known");
    kit_await(kit_path("revoked")); /* the peer has been told too: not yet that we have finalized */
    OK(MPI_Conn_remove(handle));
    free(in);
    int code = kit_end();
    MPI_Finalize();
    return code;
}
