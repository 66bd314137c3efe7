/* One half of a pair of jobs of as many ranks each: `requests NAME OTHER SIDE SECTION...`. What may be asked of requests
 * and their statuses, and what becomes of those that fail. Rank r talks to rank r of the other job. */
#include "partner.h"

#include <sys/mman.h>

#if defined MPICH_NUMVERSION && MPICH_NUMVERSION >= 50000000 && !defined I_MPI_VERSION
#define HAVE_IS_COMPLETE
#endif

enum { LARGE = 300000 };

/* ---- looking at many: nothing ends by that ---- */

#ifdef HAVE_41
static void many(void)
{
    enum { OURS, NATIVE, NONE, RESTS, LATE, NATIVE_RESTS, ALL };
    MPI_Request all[ALL], kept[ALL];
    MPI_Status statuses[ALL], status;
    int in[ALL], word = 5 + side, flag = -1, index = -1, n = -1, indices[ALL];
    OK(MPI_Irecv(&in[OURS], 1, MPI_INT, me, 50, inter, &all[OURS]));
    OK(MPI_Irecv(&in[NATIVE], 1, MPI_INT, 0, 52, MPI_COMM_SELF, &all[NATIVE]));
    all[NONE] = MPI_REQUEST_NULL;
    OK(MPI_Recv_init(&in[RESTS], 1, MPI_INT, me, 53, inter, &all[RESTS]));
    OK(MPI_Irecv(&in[LATE], 1, MPI_INT, me, 51, inter, &all[LATE]));
    OK(MPI_Recv_init(&in[NATIVE_RESTS], 1, MPI_INT, 0, 53, MPI_COMM_SELF, &all[NATIVE_RESTS]));
    memcpy(kept, all, sizeof all);
    meet();

    OK(MPI_Request_get_status_any(ALL, all, &index, &flag, &status));
    SAME(flag, 0);
    OK(MPI_Request_get_status_all(ALL, all, &flag, statuses));
    SAME(flag, 0);
    OK(MPI_Request_get_status_some(ALL, all, &n, indices, statuses));
    SAME(n, 0);

    OK(MPI_Send(&word, 1, MPI_INT, 0, 52, MPI_COMM_SELF));
    do POLL(MPI_Request_get_status_any(ALL, all, &index, &flag, &status));
    while (!flag);
    SAME(index, NATIVE);
    is_of(&status, 0, 52, 1);
    OK(MPI_Request_get_status_some(ALL, all, &n, indices, statuses));
    SAME(n, 1);
    SAME(indices[0], NATIVE);
    is_of(&statuses[0], 0, 52, 1);
    OK(MPI_Request_get_status_all(ALL, all, &flag, statuses));
    SAME(flag, 0);

    meet();
    OK(MPI_Send(&word, 1, MPI_INT, me, 51, inter));
    do POLL(MPI_Request_get_status_some(ALL, all, &n, indices, statuses));
    while (n < 2);
    SAME(n, 2);
    for (int i = 0; i < 2; ++i) {
        if (indices[i] == NATIVE)
            is_of(&statuses[i], 0, 52, 1);
        else {
            SAME(indices[i], LATE);
            is_from(&statuses[i], 51, 1);
        }
    }
    CHECK(indices[0] != indices[1]);
    OK(MPI_Request_get_status_any(ALL - LATE, all + LATE, &index, &flag, &status));
    SAME(flag, 1);
    SAME(index, 0);
    is_from(&status, 51, 1);
    OK(MPI_Request_get_status_any(3, (MPI_Request[]){all[NONE], all[OURS], all[RESTS]}, &index, &flag, &status));
    SAME(flag, 0);
    meet();
    OK(MPI_Send(&word, 1, MPI_INT, me, 50, inter));
    for (int ignored = 0; ignored < 2; ++ignored) {
        memset(statuses, 0x5A, sizeof statuses);
        do POLL(MPI_Request_get_status_all(ALL, all, &flag, ignored ? MPI_STATUSES_IGNORE : statuses));
        while (!flag);
        for (int i = 0; i < ALL && !ignored; ++i) {
            if (i == OURS || i == LATE)
                is_from(&statuses[i], i == OURS ? 50 : 51, 1);
            else if (i == NATIVE)
                is_of(&statuses[i], 0, 52, 1);
            else
                is_empty(&statuses[i]);
        }
    }
    SAME(memcmp(all, kept, sizeof all), 0);
    SAME(in[OURS], 5 + !side);
    SAME(in[LATE], 5 + !side);
    OK(MPI_Waitall(ALL, all, statuses));
    is_from(&statuses[OURS], 50, 1);
    is_of(&statuses[NATIVE], 0, 52, 1);
    is_from(&statuses[LATE], 51, 1);
    CHECK(all[OURS] == MPI_REQUEST_NULL && all[NATIVE] == MPI_REQUEST_NULL && all[RESTS] == kept[RESTS]);

    /* None is active: with native ones that rest, and without. */
    for (int count = ALL - 1; count <= ALL; ++count) {
        OK(MPI_Request_get_status_any(count, all, &index, &flag, &status));
        SAME(flag, 1);
        SAME(index, MPI_UNDEFINED);
        is_empty(&status);
        OK(MPI_Request_get_status_some(count, all, &n, indices, statuses));
        SAME(n, MPI_UNDEFINED);
        OK(MPI_Request_get_status_all(count, all, &flag, statuses));
        SAME(flag, 1);
        for (int i = 0; i < count; ++i) is_empty(&statuses[i]);
    }
    OK(MPI_Request_get_status_any(1, &all[RESTS], &index, &flag, &status));
    SAME(flag, 1);
    SAME(index, MPI_UNDEFINED);
    is_empty(&status);
    OK(MPI_Request_free(&all[RESTS]));
    OK(MPI_Request_free(&all[NATIVE_RESTS]));
}

/* ---- a request for what is in a buffer ---- */

static void flushed(void)
{
    int *out = numbers(LARGE), *in = numbers(LARGE), pack, flag = -1, size;
    void *buffer, *back;
    MPI_Request request, all[2];
    MPI_Status status;
    kit_fill(out, BYTES(LARGE), seed_out(60));
    OK(MPI_Pack_size(LARGE, MPI_INT, MPI_COMM_WORLD, &pack));
    size = 2 * (pack + MPI_BSEND_OVERHEAD);
    buffer = kit_alloc((size_t)size);
    OK(MPI_Buffer_attach(buffer, size));
    OK(MPI_Buffer_iflush(&request)); /* nothing is in it */
    OK(MPI_Wait(&request, &status));
    CHECK(request == MPI_REQUEST_NULL);
    for (int round = 0; round < 3; ++round) {
        int native = round != 1; /* something of the MPI's own beside */
        OK(MPI_Bsend(out, LARGE, MPI_INT, me, 60, inter));
        if (native) OK(MPI_Bsend(out, LARGE, MPI_INT, 0, 61, MPI_COMM_SELF));
        OK(MPI_Buffer_iflush(&request));
        OK(MPI_Test(&request, &flag, &status));
        SAME(flag, 0);
        CHECK(request != MPI_REQUEST_NULL);
        OK(MPI_Request_get_status(request, &flag, &status));
        SAME(flag, 0);
        meet();
        OK(MPI_Recv(in, LARGE, MPI_INT, me, 60, inter, &status));
        HOLDS(in, BYTES(LARGE), seed_in(60));
        if (native) OK(MPI_Recv(in, LARGE, MPI_INT, 0, 61, MPI_COMM_SELF, &status));
        if (round == 2) {
            OK(MPI_Request_free(&request));
            CHECK(request == MPI_REQUEST_NULL);
        } else {
            all[0] = MPI_REQUEST_NULL;
            all[1] = request;
            MPI_Status statuses[2];
            OK(MPI_Waitall(2, all, statuses));
            is_empty(&statuses[1]);
            CHECK(all[1] == MPI_REQUEST_NULL);
        }
    }
    OK(MPI_Buffer_detach(&back, &size));
    CHECK(back == buffer);

    OK(MPI_Comm_attach_buffer(inter, buffer, size));
    OK(MPI_Comm_iflush_buffer(inter, &request));
    OK(MPI_Wait(&request, &status));
    is_empty(&status);
    OK(MPI_Bsend(out, LARGE, MPI_INT, me, 62, inter));
    OK(MPI_Comm_iflush_buffer(inter, &request));
    OK(MPI_Test(&request, &flag, &status));
    SAME(flag, 0);
    meet();
    OK(MPI_Recv(in, LARGE, MPI_INT, me, 62, inter, &status));
    HOLDS(in, BYTES(LARGE), seed_in(60));
    do POLL(MPI_Test(&request, &flag, &status));
    while (!flag);
    is_empty(&status);
    CHECK(request == MPI_REQUEST_NULL);
    OK(MPI_Comm_detach_buffer(inter, &back, &size));
    CHECK(back == buffer);
    free(buffer);
    free(out);
    free(in);
}
#endif

/* ---- one of several fails: the others' statuses say that they did not ---- */

static void errors(void)
{
    enum { GOOD, SHORT, NATIVE, NONE, ALL };
    for (int how = 0; how < 5; ++how) {
        MPI_Request all[ALL];
        MPI_Status statuses[ALL], some[ALL];
        int in[ALL][4], out[8] = {0}, code = MPI_SUCCESS, flag = 0, n, index, indices[ALL], tag = 70 + 10 * how;
        memset(statuses, 0x5A, sizeof statuses);
        memset(some, 0x5A, sizeof some);
        OK(MPI_Irecv(in[GOOD], 4, MPI_INT, me, tag, inter, &all[GOOD]));
        OK(MPI_Irecv(in[SHORT], 4, MPI_INT, me, tag + 1, inter, &all[SHORT]));
        OK(MPI_Irecv(in[NATIVE], 4, MPI_INT, 0, tag, MPI_COMM_SELF, &all[NATIVE]));
        all[NONE] = MPI_REQUEST_NULL;
        OK(MPI_Send(out, 4, MPI_INT, 0, tag, MPI_COMM_SELF));
        OK(MPI_Send(out, 4, MPI_INT, me, tag, inter));
        OK(MPI_Send(out, 8, MPI_INT, me, tag + 1, inter));
        if (how == 0)
            REFUSED(MPI_Waitall(ALL, all, statuses), MPI_ERR_IN_STATUS);
        else if (how == 1) {
            do code = MPI_Testall(ALL, all, &flag, statuses);
            while (code == MPI_SUCCESS && !flag);
            SAME(kit_class(code), MPI_ERR_IN_STATUS);
        } else if (how < 4) {
            int failed = 0;
            for (int left = 3; left;) {
                code = (how == 2 ? MPI_Waitsome : MPI_Testsome)(ALL, all, &n, indices, some);
                if (code != MPI_SUCCESS) {
                    SAME(kit_class(code), MPI_ERR_IN_STATUS);
                    ++failed;
                }
                CHECK(n >= (how == 2) && n <= left, "%d", n);
                for (int i = 0; i < n; ++i) {
                    statuses[indices[i]] = some[i];
                    /* Without a failure the field means nothing. */
                    if (code == MPI_SUCCESS) statuses[indices[i]].MPI_ERROR = MPI_SUCCESS;
                }
                if (n < 0 || n > left) return;
                left -= n;
            }
            SAME(failed, 1);
            statuses[NONE].MPI_ERROR = MPI_SUCCESS;
        } else {
            for (int left = 3; left; --left) {
                MPI_Status status;
                code = MPI_Waitany(ALL, all, &index, &status);
                CHECK(index >= 0 && index < NONE, "index %d", index);
                if (index < 0 || index >= NONE) return;
                statuses[index] = status;
                statuses[index].MPI_ERROR = code;
            }
            statuses[NONE].MPI_ERROR = MPI_SUCCESS;
        }
        for (int i = 0; i < ALL; ++i) CHECK(all[i] == MPI_REQUEST_NULL);
        SAME(statuses[GOOD].MPI_ERROR, MPI_SUCCESS);
        SAME(statuses[NATIVE].MPI_ERROR, MPI_SUCCESS);
#ifndef LAM_MPI /* which calls a null request pending there, when another one failed */
        SAME(statuses[NONE].MPI_ERROR, MPI_SUCCESS);
#endif
        SAME(kit_class(statuses[SHORT].MPI_ERROR), MPI_ERR_TRUNCATE);
        is_from(&statuses[GOOD], tag, 4);
        is_from(&statuses[SHORT], tag + 1, 4);
        is_of(&statuses[NATIVE], 0, tag, 4);
    }
}

/* ---- statuses that we filled, read and changed by the MPI ---- */

static void elements_of(MPI_Status *status, MPI_Datatype pair)
{
    int n = -1, flag = -1;
    OK(MPI_Get_count(status, pair, &n));
    SAME(n, MPI_UNDEFINED);
    OK(MPI_Get_elements(status, pair, &n));
    SAME(n, 5);
#ifndef LAM_MPI
    MPI_Count many = -1;
    OK(MPI_Get_elements_x(status, pair, &many));
    SAME(many, 5);
    OK(MPI_Status_set_elements(status, MPI_INT, 8));
    OK(MPI_Get_count(status, pair, &n));
    SAME(n, 4);
    OK(MPI_Get_elements_x(status, pair, &many));
    SAME(many, 8);
    OK(MPI_Status_set_elements_x(status, MPI_INT, (MPI_Count)1 << 40));
    OK(MPI_Get_elements_x(status, MPI_INT, &many));
    CHECK(many == (MPI_Count)1 << 40);
    OK(MPI_Get_count(status, MPI_INT, &n));
    SAME(n, MPI_UNDEFINED);
    OK(MPI_Test_cancelled(status, &flag));
    SAME(flag, 0);
    for (int mark = 1; mark >= 0; --mark) {
        OK(MPI_Status_set_cancelled(status, mark));
        OK(MPI_Test_cancelled(status, &flag));
        SAME(flag, mark);
    }
    OK(MPI_Get_elements_x(status, MPI_INT, &many));
    CHECK(many == (MPI_Count)1 << 40);
#endif
    (void)flag;
    SAME(status->MPI_SOURCE, me);
    SAME(status->MPI_TAG, 80);
}

static void elements(void)
{
    MPI_Datatype pair;
    MPI_Request requests[2];
    MPI_Status status, statuses[2];
    int out[5] = {1, 2, 3, 4, 5}, in[6], flag = -1;
    OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    OK(MPI_Type_commit(&pair));
    for (int i = 0; i < 5; ++i) OK(MPI_Send(out, 5, MPI_INT, me, 80, inter));
    OK(MPI_Probe(me, 80, inter, &status));
    elements_of(&status, pair);
    OK(MPI_Recv(in, 3, pair, me, 80, inter, &status));
    elements_of(&status, pair);
    OK(MPI_Irecv(in, 3, pair, me, 80, inter, &requests[0]));
    OK(MPI_Wait(&requests[0], &status));
    elements_of(&status, pair);
    for (int i = 0; i < 2; ++i) OK(MPI_Irecv(in, 3, pair, me, 80, inter, &requests[i]));
    OK(MPI_Waitall(2, requests, statuses));
    for (int i = 0; i < 2; ++i) elements_of(&statuses[i], pair);
    OK(MPI_Sendrecv(out, 5, MPI_INT, me, 81, in, 3, pair, me, 80, inter, &status));
    elements_of(&status, pair);
    OK(MPI_Recv(in, 3, pair, me, 81, inter, &status));
    OK(MPI_Irecv(in, 3, pair, me, 82, inter, &requests[0]));
    OK(MPI_Cancel(&requests[0]));
    OK(MPI_Wait(&requests[0], &status));
    OK(MPI_Test_cancelled(&status, &flag));
    SAME(flag, 1);
#ifndef LAM_MPI
    OK(MPI_Status_set_cancelled(&status, 0));
    OK(MPI_Test_cancelled(&status, &flag));
    SAME(flag, 0);
#endif
    OK(MPI_Type_free(&pair));
}

/* ---- a send and a receive in one, of which one half fails ---- */

#ifdef HAVE_4
/* Memory that is gone afterwards: whoever still touched it would end the program. */
static int *passing(void)
{
    void *p = mmap(NULL, BYTES(LARGE), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    return p;
}
static void passed(int *p) { CHECK(!munmap(p, BYTES(LARGE))); }

static void halves(void)
{
    enum { WAIT, TEST, WAITANY, WAITALL, WAYS };
    for (int how = 0; how < WAYS; ++how) {
        int *out = passing(), *in = passing(), *late = numbers(LARGE), *long_one = numbers(LARGE);
        int flag = -1, index = -1, code = MPI_SUCCESS, tag = 90 + 4 * how;
        MPI_Request request, send;
        MPI_Status status;
        kit_fill(out, BYTES(LARGE), seed_out(tag));
        /* What comes is longer than the buffer; what goes is received only later. */
        int room = how % 2 ? 10 : LARGE - 1;
        OK(MPI_Isendrecv(out, LARGE, MPI_INT, me, tag, in, room, MPI_INT, me, tag + 1, inter, &request));
        OK(MPI_Isend(long_one, LARGE, MPI_INT, me, tag + 1, inter, &send));
        OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
        meet();
        OK(MPI_Test(&request, &flag, &status));
        SAME(flag, 0);
        meet();
        OK(MPI_Recv(late, LARGE, MPI_INT, me, tag, inter, &status));
        if (how == WAIT)
            code = MPI_Wait(&request, &status);
        else if (how == TEST)
            do code = MPI_Test(&request, &flag, &status);
            while (code == MPI_SUCCESS && !flag);
        else if (how == WAITANY)
            code = MPI_Waitany(1, &request, &index, &status);
        else {
            REFUSED(MPI_Waitall(1, &request, &status), MPI_ERR_IN_STATUS);
            code = status.MPI_ERROR;
        }
        SAME(kit_class(code), MPI_ERR_TRUNCATE);
        CHECK(request == MPI_REQUEST_NULL);
        is_from(&status, tag + 1, room);
        passed(in);
        passed(out);
        HOLDS(late, BYTES(LARGE), seed_in(tag));
        free(late);
        free(long_one);
        meet();
    }
}
#endif

/* ---- the other job has finalized: whatever needed it fails, and is over ---- */

static void left(void)
{
    parting = 1;
    if (side == 1) {
        hear(40);
        return;
    }
#ifdef HAVE_4
    int gone, code, flag, cut = 4, *out = passing(), *in = passing(), *out_parts = passing(), *in_parts = passing();
    MPI_Request request, parts[2];
    MPI_Status status;
    OK(MPI_Conn_error_class(MPI_CONN_ERR_PEER_GONE, &gone));
    OK(MPI_Isendrecv(out, LARGE, MPI_INT, me, 41, in, LARGE, MPI_INT, me, 42, inter, &request));
    OK(MPI_Psend_init(out_parts, cut, LARGE / cut, MPI_INT, me, 43, inter, MPI_INFO_NULL, &parts[0]));
    OK(MPI_Precv_init(in_parts, cut, LARGE / cut, MPI_INT, me, 43, inter, MPI_INFO_NULL, &parts[1]));
    OK(MPI_Startall(2, parts));
    OK(MPI_Pready(1, parts[0]));
    tell(40);
    REFUSED(MPI_Wait(&request, &status), gone);
    CHECK(request == MPI_REQUEST_NULL);
    passed(out);
    passed(in);
    do code = MPI_Parrived(parts[1], 2, &flag);
    while (code == MPI_SUCCESS && !flag);
    SAME(kit_class(code), gone);
    OK(MPI_Pready(0, parts[0])); /* nobody wants it any more */
    for (int i = 0; i < 2; ++i) {
        REFUSED(MPI_Wait(&parts[i], &status), gone);
        CHECK(parts[i] != MPI_REQUEST_NULL);
    }
    passed(out_parts);
    passed(in_parts);
    for (int i = 0; i < 2; ++i) OK(MPI_Request_free(&parts[i]));
#else
    tell(40);
#endif
}

/* ---- counts of more than an int ---- */

#if MPI_VERSION >= 4
static void counted(void)
{
    enum { N = 30000 };
    const MPI_Count n = N;
    int *out = numbers(N), *in = numbers(N), *both = numbers(N), flag, size;
    void *buffer, *back;
    MPI_Status status;
    MPI_Message message;
    MPI_Request send, receive;
    MPI_Count got = -1;
    size = (int)BYTES(N) + MPI_BSEND_OVERHEAD;
    OK(MPI_Buffer_attach_c(buffer = kit_alloc((size_t)size), size));
    for (int how = 0; how < 14; ++how) {
        int tag = 120 + how, waits = 1;
        kit_fill(out, BYTES(N), seed_out(tag));
        memset(in, 0, BYTES(N));
        receive = send = MPI_REQUEST_NULL;
        switch (how % 4) {
        case 0: OK(MPI_Irecv_c(in, n, MPI_INT, me, tag, inter, &receive)); break;
        case 1:
            OK(MPI_Recv_init_c(in, n, MPI_INT, me, tag, inter, &receive));
            OK(MPI_Start(&receive));
            break;
        case 2: waits = 0; break;
        default: waits = 0;
        }
        /* Ready mode: the receive is there. */
        meet();
        switch (how) {
        case 0: OK(MPI_Send_c(out, n, MPI_INT, me, tag, inter)); break;
        case 1: OK(MPI_Ssend_c(out, n, MPI_INT, me, tag, inter)); break;
        case 2: OK(MPI_Bsend_c(out, n, MPI_INT, me, tag, inter)); break;
        case 3: OK(MPI_Isend_c(out, n, MPI_INT, me, tag, inter, &send)); break;
        case 4: OK(MPI_Rsend_c(out, n, MPI_INT, me, tag, inter)); break;
        case 5: OK(MPI_Irsend_c(out, n, MPI_INT, me, tag, inter, &send)); break;
        case 6: OK(MPI_Issend_c(out, n, MPI_INT, me, tag, inter, &send)); break;
        case 7: OK(MPI_Ibsend_c(out, n, MPI_INT, me, tag, inter, &send)); break;
        case 8: OK(MPI_Send_init_c(out, n, MPI_INT, me, tag, inter, &send)); break;
        case 9: OK(MPI_Rsend_init_c(out, n, MPI_INT, me, tag, inter, &send)); break;
        case 10: OK(MPI_Ssend_init_c(out, n, MPI_INT, me, tag, inter, &send)); break;
        case 11: OK(MPI_Bsend_init_c(out, n, MPI_INT, me, tag, inter, &send)); break;
        case 12:
            OK(MPI_Sendrecv_c(out, n, MPI_INT, me, tag + 20, both, n, MPI_INT, me, tag + 20, inter, &status));
            is_from(&status, tag + 20, N);
            HOLDS(both, BYTES(N), seed_in(tag));
            OK(MPI_Isendrecv_c(out, n, MPI_INT, me, tag, both, n, MPI_INT, MPI_PROC_NULL, 0, inter, &send));
            break;
        default:
            memcpy(both, out, BYTES(N));
            OK(MPI_Sendrecv_replace_c(both, n, MPI_INT, me, tag + 20, me, tag + 20, inter, &status));
            is_from(&status, tag + 20, N);
            HOLDS(both, BYTES(N), seed_in(tag));
            memcpy(both, out, BYTES(N));
            OK(MPI_Isendrecv_replace_c(both, n, MPI_INT, me, tag, MPI_PROC_NULL, 0, inter, &send));
        }
        if (how >= 8 && how < 12) OK(MPI_Start(&send));
        switch (how % 4) {
        case 2:
            if (how % 8 == 2)
                OK(MPI_Recv_c(in, n, MPI_INT, me, tag, inter, &status));
            else {
                OK(MPI_Mprobe(me, tag, inter, &message, &status));
                OK(MPI_Mrecv_c(in, n, MPI_INT, &message, &status));
            }
            break;
        case 3:
            OK(MPI_Mprobe(me, tag, inter, &message, &status));
            OK(MPI_Imrecv_c(in, n, MPI_INT, &message, &receive));
            waits = 1;
        }
        if (waits) OK(MPI_Wait(&receive, &status));
        is_from(&status, tag, N);
        OK(MPI_Get_count_c(&status, MPI_INT, &got));
        SAME(got, N);
        HOLDS(in, BYTES(N), seed_in(tag));
        OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
        if (send != MPI_REQUEST_NULL) OK(MPI_Request_free(&send));
        if (receive != MPI_REQUEST_NULL) OK(MPI_Request_free(&receive));
        meet();
    }
    OK(MPI_Buffer_detach_c(&back, &got));
    CHECK(back == buffer);
    SAME(got, size);
    free(buffer);

    /* More elements than an int can say, of which few have bytes. */
    const MPI_Count vast = (MPI_Count)5 << 31;
    MPI_Datatype hole, whole;
    OK(MPI_Type_contiguous(0, MPI_INT, &hole));
    OK(MPI_Type_commit(&hole));
    OK(MPI_Isend_c(out, vast, hole, me, 150, inter, &send));
    OK(MPI_Recv_c(in, vast, hole, me, 150, inter, &status));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    OK(MPI_Get_count_c(&status, MPI_INT, &got));
    SAME(got, 0);
    OK(MPI_Type_free(&hole));
    /* Room for them all, of which few come. */
    char *room = mmap(NULL, (size_t)vast, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(room != MAP_FAILED);
    OK(MPI_Type_contiguous_c(vast, MPI_BYTE, &whole));
    OK(MPI_Type_commit(&whole));
    for (int typed = 0; typed < 2; ++typed) {
        OK(MPI_Irecv_c(room, typed ? 1 : vast, typed ? whole : MPI_BYTE, me, 151, inter, &receive));
        OK(MPI_Send_c(out, BYTES(N), MPI_BYTE, me, 151, inter));
        OK(MPI_Wait(&receive, &status));
        HOLDS(room, BYTES(N), seed_in(133));
        OK(MPI_Get_count_c(&status, MPI_BYTE, &got));
        SAME(got, BYTES(N));
        OK(MPI_Get_elements_c(&status, whole, &got));
        SAME(got, BYTES(N));
        OK(MPI_Get_count_c(&status, whole, &got));
        SAME(got, MPI_UNDEFINED);
    }
    OK(MPI_Type_free(&whole));
    CHECK(!munmap(room, (size_t)vast));
    REFUSED(MPI_Send_c(out, (MPI_Count)1 << 62, MPI_INT, me, 152, inter), MPI_ERR_COUNT);
    REFUSED(MPI_Send_c(out, -vast, MPI_INT, me, 152, inter), MPI_ERR_COUNT);
    OK(MPI_Test_cancelled(&status, &flag));
    free(out);
    free(in);
    free(both);
}

/* More than 2^31 elements in one message, from side 0 to side 1; in three partitions as well as whole. */
static void vast(void)
{
    const MPI_Count n = ((MPI_Count)1 << 31) + 4;
    char *all = malloc((size_t)n + 8);
    MPI_Request request;
    MPI_Status status;
    MPI_Count got = -1;
    int few = -1;
    CHECK(all, "no memory");
    if (side == 0) {
        kit_fill(all, (size_t)n, seed_out(160));
        OK(MPI_Isend_c(all, n, MPI_CHAR, me, 160, inter, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Psend_init(all, 2, n / 2, MPI_CHAR, me, 161, inter, MPI_INFO_NULL, &request));
        OK(MPI_Start(&request));
        OK(MPI_Pready(1, request));
        hear(162);
        OK(MPI_Pready(0, request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Request_free(&request));
    } else {
        memset(all + n, 0x5A, 8);
        OK(MPI_Recv_c(all, n, MPI_CHAR, me, 160, inter, &status));
        OK(MPI_Get_count_c(&status, MPI_CHAR, &got));
        CHECK(got == n);
        OK(MPI_Get_count(&status, MPI_CHAR, &few));
        SAME(few, MPI_UNDEFINED);
        HOLDS(all, (size_t)n, seed_in(160));
        /* The second time it is looked at in some places: about the partitions' ends. */
        enum { PLACES = 5, WINDOW = 1 << 16 };
        static char there[PLACES][WINDOW];
        char *places[PLACES];
        for (int i = 0; i < PLACES; ++i) {
            places[i] = i == 0 ? all : all + n / 4 * i - (i == 4 ? WINDOW : WINDOW / 2);
            memcpy(there[i], places[i], WINDOW);
            memset(places[i], 0, WINDOW);
        }
        OK(MPI_Precv_init(all, 4, n / 4, MPI_CHAR, me, 161, inter, MPI_INFO_NULL, &request));
        OK(MPI_Start(&request));
        for (int flag = 0; !flag;) POLL(MPI_Parrived(request, 3, &flag));
        OK(MPI_Parrived(request, 1, &few));
        SAME(few, 0);
        tell(162);
        OK(MPI_Wait(&request, &status));
        OK(MPI_Get_count_c(&status, MPI_CHAR, &got));
        CHECK(got == n);
        for (int i = 0; i < PLACES; ++i) CHECK(!memcmp(there[i], places[i], WINDOW));
        for (int i = 0; i < 8; ++i) CHECK(all[n + i] == 0x5A);
        OK(MPI_Request_free(&request));
    }
    free(all);
}
#endif

/* ---- MPICH's own question ---- */

#ifdef HAVE_IS_COMPLETE
static void asked(void)
{
    int in = -1, word = 6 + side;
    MPI_Request request;
    OK(MPI_Recv_init(&in, 1, MPI_INT, me, 170, inter, &request));
    SAME(MPIX_Request_is_complete(request), 1); /* not started */
    for (int round = 0; round < 2; ++round) {
        OK(MPI_Start(&request));
        SAME(MPIX_Request_is_complete(request), 0);
        meet();
        OK(MPI_Send(&word, 1, MPI_INT, me, 170, inter));
        while (!MPIX_Request_is_complete(request)) {}
        SAME(in, 6 + !side);
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    OK(MPI_Request_free(&request));
    /* The MPI's own are asked as ever. */
    OK(MPI_Irecv(&in, 1, MPI_INT, 0, 171, MPI_COMM_SELF, &request));
    SAME(MPIX_Request_is_complete(request), 0);
    OK(MPI_Send(&word, 1, MPI_INT, 0, 171, MPI_COMM_SELF));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}
#endif

static const struct kit_section sections[] = {
    {"errors", errors},
    {"elements", elements},
    {"left", left},
#ifdef HAVE_4
    {"halves", halves},
#else
    {"halves", NULL},
#endif
#if MPI_VERSION >= 4
    {"counted", counted},
    {"vast", vast},
#else
    {"counted", NULL},
    {"vast", NULL},
#endif
#ifdef HAVE_41
    {"many", many},
    {"flushed", flushed},
#else
    {"many", NULL},
    {"flushed", NULL},
#endif
#ifdef HAVE_IS_COMPLETE
    {"asked", asked},
#else
    {"asked", NULL},
#endif
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    sides_join(argc, argv);
    sides_run(SECTIONS(sections), argv, meet);
    return sides_end();
}
