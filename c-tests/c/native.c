/* An MPI program that knows nothing of other jobs. What it prints must not depend on a preload. */
#include "kit.h"

static int me, size;

/* One rank after the other, so that the output has an order. */
#define SAY(...) \
    do { \
        for (int turn = 0; turn < size; ++turn) { \
            char line[400] = ""; \
            if (turn == me) snprintf(line, sizeof line, __VA_ARGS__); \
            MPI_Bcast(line, sizeof line, MPI_CHAR, turn, MPI_COMM_WORLD); \
            if (me == 0) printf("%d: %s\n", turn, line); \
        } \
    } while (0)

static int copies, deletes, handled;
static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    int n = -1;
    (void)keyval, (void)extra;
    MPI_Comm_size(comm, &n); /* a call from inside the MPI that is the program's own */
    *(void **)out = (char *)in + n;
    *flag = 1;
    ++copies;
    return MPI_SUCCESS;
}
static int gone(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value, (void)extra;
    ++deletes;
    return MPI_SUCCESS;
}
static void on_error(MPI_Comm *comm, int *code, ...)
{
    int n;
    MPI_Comm_rank(*comm, &n);
    (void)code;
    ++handled;
}
static void product(void *in, void *inout, int *n, MPI_Datatype *type)
{
    int bytes;
    MPI_Type_size(*type, &bytes);
    for (int i = 0; i < *n; ++i) ((long *)inout)[i] = ((long *)inout)[i] * ((long *)in)[i] % 1000003 + bytes - 8;
}

int main(int argc, char **argv)
{
    int provided, version, subversion, next, last, flag, n;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = (me + 1) % size;
    last = (me + size - 1) % size;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Get_version(&version, &subversion);
    text[0] = 0;
#ifndef LAM_MPI
    MPI_Get_library_version(text, &n);
#endif
    SAY("version %d.%d thread %d library %.60s", version, subversion, provided, text);

    /* collectives */
    long values[4] = {me + 1, 2 * me, 7, -me}, out[4], many[64];
    MPI_Allreduce(values, out, 4, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    SAY("allreduce %ld %ld %ld %ld", out[0], out[1], out[2], out[3]);
    MPI_Scan(values, out, 4, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    SAY("scan %ld %ld %ld %ld", out[0], out[1], out[2], out[3]);
    MPI_Allgather(values, 2, MPI_LONG, many, 2, MPI_LONG, MPI_COMM_WORLD);
    SAY("allgather %ld %ld", many[2 * next], many[2 * last + 1]);
    for (int i = 0; i < size; ++i) many[i] = 100 * me + i;
#ifndef LAM_MPI
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, many, 1, MPI_LONG, MPI_COMM_WORLD);
    SAY("alltoall in place %ld %ld", many[0], many[size - 1]);
#endif
    MPI_Op op;
    MPI_Op_create(product, 1, &op);
    MPI_Allreduce(values, out, 1, MPI_LONG, op, MPI_COMM_WORLD);
    MPI_Op_free(&op);
    SAY("user op %ld null %d", out[0], op == MPI_OP_NULL);

    /* point to point, all kinds of requests */
    MPI_Request requests[6];
    MPI_Status statuses[6], status;
    int in[6] = {0};
    MPI_Send_init(&me, 1, MPI_INT, next, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(&in[0], 1, MPI_INT, last, 1, MPI_COMM_WORLD, &requests[1]);
    for (int round = 0; round < 3; ++round) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, statuses);
    }
    MPI_Get_count(&statuses[1], MPI_INT, &n);
    SAY("persistent %d from %d tag %d count %d", in[0], statuses[1].MPI_SOURCE, statuses[1].MPI_TAG, n);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    MPI_Irecv(&in[1], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&me, 1, MPI_INT, next, 2, MPI_COMM_WORLD, &requests[1]);
    requests[2] = MPI_REQUEST_NULL;
    for (int left = 2, index; left; --left) MPI_Waitany(3, requests, &index, &status);
    SAY("waitany %d null %d", in[1], requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
    MPI_Sendrecv(&me, 1, MPI_INT, last, 3, &in[2], 1, MPI_INT, next, 3, MPI_COMM_WORLD, &status);
    SAY("sendrecv %d from %d", in[2], status.MPI_SOURCE);
    char *room = kit_alloc(1000 + MPI_BSEND_OVERHEAD);
    MPI_Buffer_attach(room, 1000 + MPI_BSEND_OVERHEAD);
    MPI_Bsend(&me, 1, MPI_INT, next, 4, MPI_COMM_WORLD);
#ifdef LAM_MPI
    MPI_Recv(&in[3], 1, MPI_INT, last, 4, MPI_COMM_WORLD, &status);
#else
    MPI_Message message;
    MPI_Mprobe(last, 4, MPI_COMM_WORLD, &message, &status);
    MPI_Mrecv(&in[3], 1, MPI_INT, &message, &status);
    SAY("mprobe null %d", message == MPI_MESSAGE_NULL);
#endif
    void *detached;
    MPI_Buffer_detach(&detached, &n);
    SAY("bsend %d detached %d", in[3], detached == room);
    MPI_Irecv(&in[4], 1, MPI_INT, last, 5, MPI_COMM_WORLD, &requests[0]);
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], &status);
    MPI_Test_cancelled(&status, &flag);
    SAY("cancelled %d", flag);
    do MPI_Iprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &flag, &status);
    while (!flag);
    SAY("probe null %d %d", status.MPI_SOURCE == MPI_PROC_NULL, status.MPI_TAG == MPI_ANY_TAG);

    /* datatypes */
    MPI_Datatype vector, resized, structure, dup;
    MPI_Type_vector(3, 2, 4, MPI_INT, &vector);
    MPI_Type_create_resized(vector, 0, 48, &resized);
    int lengths[2] = {1, 2}, envelope[4];
    MPI_Aint offsets[2] = {0, 48}, lower, extent;
    MPI_Datatype parts[2] = {resized, MPI_DOUBLE};
    MPI_Type_create_struct(2, lengths, offsets, parts, &structure);
    MPI_Type_commit(&structure);
    MPI_Type_set_name(structure, "a structure");
    MPI_Type_dup(structure, &dup);
    MPI_Type_size(dup, &n);
    MPI_Type_get_extent(dup, &lower, &extent);
    MPI_Type_get_envelope(structure, &envelope[0], &envelope[1], &envelope[2], &envelope[3]);
    MPI_Type_get_name(structure, text, &flag);
    SAY("type %d %ld %ld \"%s\" %d %d %d", n, (long)lower, (long)extent, text, envelope[0], envelope[1], envelope[2]);
    struct { int a[12]; double b[2]; } from, to;
    memset(&to, 0, sizeof to);
    for (int i = 0; i < 12; ++i) from.a[i] = 100 * me + i;
    from.b[0] = me + 0.5, from.b[1] = me + 0.25;
    MPI_Sendrecv(&from, 1, structure, next, 6, &to, 1, dup, last, 6, MPI_COMM_WORLD, &status);
    MPI_Get_elements(&status, dup, &n);
    SAY("struct %d %d %d %g %g elements %d", to.a[1], to.a[2], to.a[9], to.b[0], to.b[1], n);
    char packed[256];
    int position = 0;
    MPI_Pack(&from, 1, structure, packed, sizeof packed, &position, MPI_COMM_WORLD);
    SAY("packed %d", position);
    MPI_Type_free(&dup), MPI_Type_free(&structure), MPI_Type_free(&resized), MPI_Type_free(&vector);

    /* communicators, groups, attributes */
    MPI_Comm split, copied, inter, merged, cart;
    int keyval;
    void *value;
    MPI_Comm_create_keyval(copy, gone, &keyval, NULL);
    MPI_Comm_split(MPI_COMM_WORLD, me % 2, -me, &split);
    MPI_Comm_set_attr(split, keyval, text);
    MPI_Comm_dup(split, &copied);
    MPI_Comm_get_attr(copied, keyval, &value, &flag);
    MPI_Comm_compare(split, copied, &n);
    SAY("dup flag %d moved %d congruent %d", flag, (int)((char *)value - text), n == MPI_CONGRUENT);
    MPI_Comm_set_name(copied, "copied");
    MPI_Comm_get_name(copied, text, &n);
    SAY("name \"%s\"", text);
    MPI_Group world, group, both;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Comm_group(split, &group);
    MPI_Group_difference(world, group, &both);
    MPI_Group_size(both, &n);
    MPI_Group_translate_ranks(group, 1, (int[]){0}, world, &flag);
    SAY("groups %d %d", n, flag);
    MPI_Group_free(&world), MPI_Group_free(&group), MPI_Group_free(&both);
    MPI_Intercomm_create(split, 0, MPI_COMM_WORLD, me % 2 ? (size - 1) / 2 * 2 : (size / 2) * 2 - 1, 9, &inter);
    MPI_Comm_test_inter(inter, &flag);
    MPI_Comm_remote_size(inter, &n);
    int in_half;
    MPI_Comm_rank(split, &in_half);
    MPI_Sendrecv(&me, 1, MPI_INT, 0, 7, &in[5], 1, MPI_INT, 0, 7, in_half == 0 ? inter : MPI_COMM_SELF, &status);
    SAY("inter %d remote %d got %d", flag, n, in[5]);
    MPI_Allreduce(&me, &n, 1, MPI_INT, MPI_SUM, inter);
    MPI_Intercomm_merge(inter, me % 2, &merged);
    MPI_Comm_rank(merged, &flag);
    SAY("inter sum %d merged rank %d", n, flag);
    int dims[2] = {0, 0}, periods[2] = {1, 0}, coordinates[2];
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &cart);
    MPI_Cart_coords(cart, me, 2, coordinates);
    MPI_Cart_shift(cart, 1, 1, &n, &flag);
    SAY("cart %d %d shift %d %d", coordinates[0], coordinates[1], n == MPI_PROC_NULL, flag == MPI_PROC_NULL);
    MPI_Comm_free(&cart), MPI_Comm_free(&merged), MPI_Comm_free(&inter), MPI_Comm_free(&copied), MPI_Comm_free(&split);
    MPI_Comm_free_keyval(&keyval);
    SAY("copies %d deletes %d", copies, deletes);

    /* errors */
    MPI_Errhandler errhandler;
    MPI_Comm_create_errhandler(on_error, &errhandler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, errhandler);
    int code = MPI_Send(&me, 1, MPI_INT, size + 5, 0, MPI_COMM_WORLD), class;
    MPI_Error_class(code, &class);
    SAY("handled %d class %d", handled, class == MPI_ERR_RANK);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&errhandler);
    code = MPI_Send(&me, 1, MPI_INT, 0, -5, MPI_COMM_WORLD);
    MPI_Error_string(code, text, &n);
    SAY("tag error \"%.80s\"", strncmp(text, "MPI_ERR", 7) ? "(text of MPICH, with addresses)" : text);
#ifndef LAM_MPI
    int own_class, own_code;
    MPI_Add_error_class(&own_class);
    MPI_Add_error_code(own_class, &own_code);
    MPI_Add_error_string(own_code, "our own");
    MPI_Error_string(own_code, text, &n);
    SAY("own \"%s\" %d", text, own_class > MPI_ERR_LASTCODE || own_class > 0);
#endif
    static const int classes[] = {MPI_SUCCESS, MPI_ERR_BUFFER, MPI_ERR_COUNT, MPI_ERR_TYPE, MPI_ERR_TAG, MPI_ERR_COMM,
                                  MPI_ERR_RANK, MPI_ERR_REQUEST, MPI_ERR_TRUNCATE, MPI_ERR_OTHER};
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; ++i) {
        MPI_Error_string(classes[i], text, &n);
        if (me == 0) printf("class %zu \"%s\"\n", i, text);
    }

    /* windows, info, clocks */
    MPI_Win win;
    int shared[2], *bound;
    MPI_Win_create(shared, sizeof shared, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    shared[0] = me;
    MPI_Win_fence(0, win);
    SAY("window %d", shared[0]);
    MPI_Win_free(&win);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "key", "value");
    MPI_Info_get(info, "key", 100, text, &flag);
    MPI_Info_free(&info);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &n);
    SAY("info %s %d tag bound %d", text, flag, *bound);
    double start = MPI_Wtime();
    SAY("wtime %d tick %d", MPI_Wtime() >= start, MPI_Wtick() > 0);
    MPI_Initialized(&flag);
    MPI_Is_thread_main(&n);
    SAY("initialized %d main %d", flag, n);
    MPI_Finalize();
    MPI_Finalized(&flag);
    if (me == 0) printf("finalized %d\n", flag);
    return 0;
}
