/* Random datatypes: `types MINE THEIRS SIDE SEED ROUNDS`. Both halves draw the same numbers, so they make types of the
 * same signature; what they do not draw may differ between them.
 *
 * Each type is made twice: by the MPI, and as a list of its elements by the standard's definition. The list is the judge
 * of what arrives. The MPI's own Pack and Unpack are held against it too: where they differ, the type is counted as odd. */
#include "kit.h"

enum { ELEMENTS = 4000, DEPTH = 4, MOST = 4, SPAN = 1 << 23 };

static MPI_Comm inter;
static int side, lam; /* LAM is on one side at least: no constructors that it lacks */

/* ---- numbers ---- */

static uint64_t state;

static unsigned draw(unsigned below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    uint64_t z = (state ^ (state >> 31)) * 0xBF58476D1CE4E5B9u;
    return (unsigned)((z >> 33) % below);
}

/* Of each side alone: how it says the same. */
static uint64_t taste_state;

static unsigned taste(unsigned below)
{
    uint64_t shared = state;
    state = taste_state;
    unsigned n = draw(below);
    taste_state = state;
    state = shared;
    return n;
}

/* ---- making types ---- */

enum { BASICS = 9 };
static MPI_Datatype basics[BASICS];

static void fill_basics(void)
{
    MPI_Datatype all[BASICS] = {MPI_CHAR,          MPI_SHORT,      MPI_INT,       MPI_FLOAT, MPI_DOUBLE,
                                MPI_LONG_LONG_INT, MPI_DOUBLE_INT, MPI_SHORT_INT, MPI_2INT};
    memcpy(basics, all, sizeof all);
}

/* The elements of a type, in order; more than ELEMENTS are too many. */
struct map {
    int n;
    struct element {
        MPI_Aint at;
        int basic;
    } of[ELEMENTS];
};

static void add(struct map *to, const struct map *more, MPI_Aint at)
{
    for (int i = 0; i < more->n && to->n <= ELEMENTS; ++i) {
        if (to->n < ELEMENTS) to->of[to->n] = (struct element){at + more->of[i].at, more->of[i].basic};
        ++to->n;
    }
}

static void add_block(struct map *to, const struct map *more, MPI_Aint at, int count, MPI_Aint extent)
{
    for (int i = 0; i < count && to->n <= ELEMENTS; ++i) add(to, more, at + i * extent);
}

static MPI_Aint extent_of(MPI_Datatype type)
{
    MPI_Aint lower, extent;
    OK(MPI_Type_get_extent(type, &lower, &extent));
    return extent;
}

/* The bytes of a basic type that are data: the pairs have holes. */
static const char *const live[BASICS] = {"x", "xx", "xxxx", "xxxx", "xxxxxxxx", "xxxxxxxx", "xxxxxxxxxxxx", "xx..xxxx",
                                         "xxxxxxxx"};

static int size_of(const struct map *map)
{
    int bytes = 0;
    for (int i = 0; i < map->n; ++i)
        for (const char *l = live[map->of[i].basic]; *l; ++l) bytes += *l == 'x';
    return bytes;
}

/* What Pack does, or Unpack, for so many elements. */
static void copy(const struct map *map, char *origin, int count, MPI_Aint extent, char *packed, int unpack)
{
    for (int c = 0; c < count; ++c)
        for (int i = 0; i < map->n; ++i)
            for (int b = 0; live[map->of[i].basic][b]; ++b)
                if (live[map->of[i].basic][b] == 'x') {
                    char *at = origin + c * extent + map->of[i].at + b;
                    if (unpack) *at = *packed++;
                    else *packed++ = *at;
                }
}

static char story[4000]; /* how the type was made */

static void tell(const char *format, ...)
{
    size_t n = strlen(story);
    va_list args;
    va_start(args, format);
    vsnprintf(story + n, sizeof story - n, format, args);
    va_end(args);
}

static void tell_ints(const char *what, int n, const int *v)
{
    tell(" %s", what);
    for (int i = 0; i < n; ++i) tell("%c%d", i ? ',' : '=', v[i]);
}

static void tell_far(int n, const MPI_Aint *v)
{
    tell(" at");
    for (int i = 0; i < n; ++i) tell("%c%ld", i ? ',' : '=', (long)v[i]);
}

enum kind { CONTIGUOUS, VECTOR, HVECTOR, INDEXED, HINDEXED, STRUCT, SUBARRAY, DARRAY, RESIZED, DUP, COMMON,
            INDEXED_BLOCK = COMMON, HINDEXED_BLOCK, KINDS };

#if MPI_VERSION >= 4
#define LARGE taste(2) /* its twin for large counts makes the same */
#define LARGE_ARRAY(name, n, from) \
    MPI_Count name[MOST + 1] = {0}; \
    for (int j_ = 0; j_ < (n); ++j_) name[j_] = (from)[j_]
#endif

static MPI_Datatype make(int depth, struct map *of);

/* One that is not empty, for others to be made of: of empty ones Open MPI makes no arrays, and MPICH's Unpack divides by
 * their size. Blocks may be empty, and the whole. */
static MPI_Datatype make_full(int depth, struct map *of)
{
    MPI_Datatype made = make(depth, of);
    if (of->n == 0) {
        OK(MPI_Type_free(&made));
        tell(" or");
        made = make(0, of);
    }
    return made;
}

/* Aligned for all basic types, in either direction. */
static MPI_Aint far(void) { return ((MPI_Aint)draw(80) - 40) * 8; }

static MPI_Datatype make_struct(int depth, struct map *of)
{
    MPI_Datatype inner[MOST], made;
    struct map *part = kit_alloc(sizeof *part);
    int n = (int)draw(MOST + 1), lengths[MOST] = {0};
    MPI_Aint places[MOST] = {0};
    for (int i = 0; i < n; ++i) {
        part->n = 0;
        lengths[i] = (int)draw(3);
        places[i] = i * 400 + far();
        inner[i] = make_full(depth - 1, part);
        add_block(of, part, places[i], lengths[i], extent_of(inner[i]));
    }
    tell_ints("lengths", n, lengths), tell_far(n, places);
#ifdef LARGE
    if (LARGE) {
        LARGE_ARRAY(l, n, lengths);
        LARGE_ARRAY(p, n, places);
        OK(MPI_Type_create_struct_c(n, l, p, inner, &made));
    } else
#endif
        OK(MPI_Type_create_struct(n, lengths, places, inner, &made));
    for (int i = 0; i < n; ++i)
        OK(MPI_Type_free(&inner[i]));
    free(part);
    return made;
}

/* Adds the elements of an array that are ours, along the dimensions from the slowest one on. */
static void add_array(struct map *of, const struct map *one, MPI_Aint extent, int n, const int *sizes, const int *order,
                      char have[][8], int depth, MPI_Aint at)
{
    if (depth == n) {
        add(of, one, at * extent);
        return;
    }
    int d = order[depth];
    for (int e = 0; e < sizes[d]; ++e)
        if (have[d][e]) add_array(of, one, extent, n, sizes, order, have, depth + 1, at * sizes[d] + e);
}

static MPI_Datatype make_array(enum kind kind, MPI_Datatype inner, struct map *of, const struct map *one)
{
    MPI_Datatype made;
    int n = 1 + (int)draw(3), order = draw(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    int sizes[MOST], parts[MOST], starts[MOST], kinds[MOST], arguments[MOST], grid[MOST], processes = 1, by_speed[MOST];
    char have[MOST][8] = {{0}};
    for (int i = 0; i < n; ++i) {
        static const int how[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE};
        sizes[i] = 1 + (int)draw(6);
        parts[i] = 1 + (int)draw((unsigned)sizes[i]);
        starts[i] = (int)draw((unsigned)(sizes[i] - parts[i] + 1));
        unsigned h = draw(3), by = draw(3), over = 1 + draw(3);
        kinds[i] = how[h];
        grid[i] = h == 2 ? 1 : (int)over;
        int enough = (sizes[i] + grid[i] - 1) / grid[i];
        arguments[i] = by == 0 || h == 2 ? MPI_DISTRIBUTE_DFLT_DARG : h == 0 ? enough + (int)by - 1 : (int)by;
        processes *= grid[i];
        by_speed[i] = order == MPI_ORDER_C ? i : n - 1 - i;
    }
    int rank = (int)draw((unsigned)processes);
    for (int i = n - 1, beyond = rank; i >= 0; --i) {
        int place = beyond % grid[i];
        beyond /= grid[i];
        int length = kinds[i] == MPI_DISTRIBUTE_NONE            ? sizes[i]
                     : arguments[i] != MPI_DISTRIBUTE_DFLT_DARG ? arguments[i]
                     : kinds[i] == MPI_DISTRIBUTE_BLOCK         ? (sizes[i] + grid[i] - 1) / grid[i]
                                                                : 1;
        for (int e = 0; e < sizes[i]; ++e)
            have[i][e] = kind == SUBARRAY ? e >= starts[i] && e < starts[i] + parts[i] : e / length % grid[i] == place;
    }
    add_array(of, one, extent_of(inner), n, sizes, by_speed, have, 0, 0);
    tell_ints("sizes", n, sizes);
    tell(order == MPI_ORDER_C ? " C" : " Fortran");
    if (kind == SUBARRAY) {
        tell_ints("parts", n, parts), tell_ints("starts", n, starts);
#ifdef LARGE
        if (LARGE) {
            LARGE_ARRAY(z, n, sizes);
            LARGE_ARRAY(p, n, parts);
            LARGE_ARRAY(s, n, starts);
            OK(MPI_Type_create_subarray_c(n, z, p, s, order, inner, &made));
            return made;
        }
#endif
        OK(MPI_Type_create_subarray(n, sizes, parts, starts, order, inner, &made));
        return made;
    }
    tell_ints("kinds", n, kinds), tell_ints("arguments", n, arguments), tell_ints("grid", n, grid);
    tell(" rank %d of %d", rank, processes);
#ifdef LARGE
    if (LARGE) {
        LARGE_ARRAY(z, n, sizes);
        OK(MPI_Type_create_darray_c(processes, rank, n, z, kinds, arguments, grid, order, inner, &made));
        return made;
    }
#endif
    OK(MPI_Type_create_darray(processes, rank, n, sizes, kinds, arguments, grid, order, inner, &made));
    return made;
}

static MPI_Datatype make_list(enum kind kind, MPI_Datatype inner, struct map *of, const struct map *one)
{
    MPI_Datatype made;
    int n = (int)draw(MOST + 1), length = (int)draw(4), lengths[MOST] = {0}, steps[MOST] = {0};
    MPI_Aint places[MOST] = {0};
    for (int i = 0; i < n; ++i) {
        lengths[i] = (int)draw(4);
        steps[i] = i * 4 + (int)draw(3) - 6;
        places[i] = i * 320 + far();
    }
    int backwards = draw(4) == 0;
    for (int i = 0; i < n; ++i) {
        if (backwards) steps[i] = -steps[i], places[i] = -places[i];
        MPI_Aint extent = extent_of(inner), at = kind == INDEXED || kind == INDEXED_BLOCK ? steps[i] * extent : places[i];
        add_block(of, one, at, kind == INDEXED || kind == HINDEXED ? lengths[i] : length, extent);
    }
    tell(" length %d", length), tell_ints("lengths", n, lengths), tell_ints("steps", n, steps), tell_far(n, places);
#ifdef LARGE
    if (LARGE) {
        LARGE_ARRAY(l, n, lengths);
        LARGE_ARRAY(s, n, steps);
        LARGE_ARRAY(p, n, places);
        if (kind == INDEXED) OK(MPI_Type_indexed_c(n, l, s, inner, &made));
        else if (kind == HINDEXED) OK(MPI_Type_create_hindexed_c(n, l, p, inner, &made));
        else if (kind == INDEXED_BLOCK) OK(MPI_Type_create_indexed_block_c(n, length, s, inner, &made));
        else OK(MPI_Type_create_hindexed_block_c(n, length, p, inner, &made));
        return made;
    }
#endif
    if (kind == INDEXED) OK(MPI_Type_indexed(n, lengths, steps, inner, &made));
    else if (kind == HINDEXED) OK(MPI_Type_create_hindexed(n, lengths, places, inner, &made));
#ifndef LAM_MPI
    else if (kind == INDEXED_BLOCK) OK(MPI_Type_create_indexed_block(n, length, steps, inner, &made));
    else OK(MPI_Type_create_hindexed_block(n, length, places, inner, &made));
#endif
    return made;
}

/* A type that the caller frees. Its signature is added to `of`. */
static MPI_Datatype make(int depth, struct map *of)
{
    static const char *names[] = {"contiguous", "vector", "hvector", "indexed", "hindexed", "struct", "subarray",
                                  "darray", "resized", "dup", "indexed_block", "hindexed_block"};
    MPI_Datatype made, inner;
    struct map *one;
    if (depth == 0 || draw(6) == 0) {
        int b = (int)draw(BASICS);
        of->of[of->n++] = (struct element){0, b};
        tell(" basic %d", b);
        OK(MPI_Type_dup(basics[b], &made));
        return made;
    }
    enum kind kind = (enum kind)draw(lam ? COMMON : KINDS);
    tell(" %s(", names[kind]);
    if (kind == STRUCT) {
        made = make_struct(depth, of);
        tell(")");
        return made;
    }
    one = kit_alloc(sizeof *one);
    one->n = 0;
    inner = make_full(depth - 1, one);
    int count = (int)draw(4), length = (int)draw(4), stride = (int)draw(13) - 6;
    MPI_Aint step = far(), extent = extent_of(inner);
    unsigned more = draw(3), shift = draw(20);
    switch (kind) {
    case CONTIGUOUS:
    case VECTOR:
    case HVECTOR:
        for (int i = 0; i < count; ++i)
            add_block(of, one, i * (kind == CONTIGUOUS ? extent : kind == VECTOR ? stride * extent : step),
                      kind == CONTIGUOUS ? 1 : length, extent);
        tell(" count %d length %d stride %d or %ld", count, length, stride, (long)step);
#ifdef LARGE
        if (LARGE) {
            if (kind == CONTIGUOUS) OK(MPI_Type_contiguous_c(count, inner, &made));
            else if (kind == VECTOR) OK(MPI_Type_vector_c(count, length, stride, inner, &made));
            else OK(MPI_Type_create_hvector_c(count, length, step, inner, &made));
            break;
        }
#endif
        if (kind == CONTIGUOUS) OK(MPI_Type_contiguous(count, inner, &made));
        else if (kind == VECTOR) OK(MPI_Type_vector(count, length, stride, inner, &made));
        else OK(MPI_Type_create_hvector(count, length, step, inner, &made));
        break;
    case SUBARRAY:
    case DARRAY: made = make_array(kind, inner, of, one); break;
    case RESIZED:
        add(of, one, 0);
        /* To a multiple of 8: farther apart, closer together, or backwards. */
        extent = more == 0 ? -(extent + 15) / 8 * 8 : (extent + 7) / 8 * 8 + (MPI_Aint)shift * 8;
        tell(" from %ld for %ld", (long)step, (long)extent);
#ifdef LARGE
        if (LARGE) {
            OK(MPI_Type_create_resized_c(inner, step, extent, &made));
            break;
        }
#endif
        OK(MPI_Type_create_resized(inner, step, extent, &made));
        break;
    case DUP:
        add(of, one, 0);
        OK(MPI_Type_dup(inner, &made));
        break;
    default: made = make_list(kind, inner, of, one); break;
    }
    OK(MPI_Type_free(&inner));
    free(one);
    tell(")");
    return made;
}

/* Another type of the same signature: its elements far and wide, with holes, some in descending order. */
static MPI_Datatype scatter(struct map *of)
{
    MPI_Datatype made, *types = kit_alloc(sizeof *types * (size_t)of->n);
    int *lengths = kit_alloc(sizeof *lengths * (size_t)of->n), n = 0;
    MPI_Aint *places = kit_alloc(sizeof *places * (size_t)of->n), at = 0;
    int down = (int)taste(2);
    for (int i = 0; i < of->n; ++n) {
        int run = 1;
        while (i + run < of->n && of->of[i + run].basic == of->of[i].basic && taste(9)) ++run;
        at += (MPI_Aint)taste(4) * 8 + (down ? run * 16 : 0);
        places[n] = down ? -at : at;
        at += down ? 0 : run * 16;
        lengths[n] = run;
        types[n] = basics[of->of[i].basic];
        MPI_Aint extent = extent_of(types[n]);
        for (int r = 0; r < run; ++r) of->of[i + r].at = places[n] + r * extent;
        i += run;
    }
    OK(MPI_Type_create_struct(n, lengths, places, types, &made));
    free(types), free(lengths), free(places);
    return made;
}

/* ---- buffers ---- */

/* Memory for so many elements: what lies before and behind the type's own is guarded too. */
struct room {
    char *memory, *origin;
    size_t bytes;
};

enum { GUARD = 4096, WIDEST = 16 };

static int room_for(const struct map *map, int count, MPI_Aint extent, struct room *room)
{
    MPI_Aint low = 0, high = 0;
    for (int c = 0; c < count; c += count > 1 ? count - 1 : 1) /* the first and the last */
        for (int i = 0; i < map->n; ++i) {
            MPI_Aint at = c * extent + map->of[i].at;
            low = at < low ? at : low;
            high = at + WIDEST > high ? at + WIDEST : high;
        }
    if (high - low > SPAN) return 0;
    room->bytes = (size_t)(high - low) + 2 * GUARD;
    room->memory = kit_alloc(room->bytes);
    room->origin = room->memory + GUARD - low;
    return 1;
}

/* Whether no byte of it is told twice: only then may one receive into it. */
static int is_plain(const struct map *map, int count, MPI_Aint extent)
{
    struct room room;
    size_t bytes = (size_t)size_of(map) * (size_t)count, set = 0;
    room_for(map, count, extent, &room);
    char *ones = memset(kit_alloc(bytes), 1, bytes);
    memset(room.memory, 0, room.bytes);
    copy(map, room.origin, count, extent, ones, 1);
    for (size_t i = 0; i < room.bytes; ++i) set += (size_t)room.memory[i];
    free(ones), free(room.memory);
    return set == bytes;
}

/* ---- one round ---- */

static int odd; /* types that this MPI's Pack or Unpack sees otherwise */

/* The type that a round is about. */
struct subject {
    MPI_Datatype type;
    struct map *map;
    int count, bytes, seed, round;
    MPI_Aint extent;
};

static void hold(const char *what, const struct subject *s, const char *here, const char *right, size_t length)
{
    size_t i = 0;
    while (i < length && here[i] == right[i]) ++i;
    kit_checks += 1 + (long)length / 8;
    if (i < length)
        kit_fail(__FILE__, __LINE__, "%s, seed %d round %d: byte %zu of %zu, count %d, %d bytes:%s", what, s->seed, s->round,
                 i, length, s->count, s->bytes, story);
}

static void note_odd(const char *what, const struct subject *s)
{
    ++odd;
    printf("ODD %s, seed %d round %d: count %d, %d bytes:%s\n", what, s->seed, s->round, s->count, s->bytes, story);
}

static void send_one(struct subject *s)
{
    struct room room;
    size_t bytes = (size_t)s->bytes;
    int at = 0;
    room_for(s->map, s->count, s->extent, &room);
    kit_fill(room.memory, room.bytes, (uint64_t)s->round);
    char *packed = kit_alloc(bytes), *native = kit_alloc(bytes);
    copy(s->map, room.origin, s->count, s->extent, packed, 0);
    if (bytes > 0) OK(MPI_Pack(room.origin, s->count, s->type, native, s->bytes, &at, MPI_COMM_WORLD)); /* LAM wants some */
    if (at != s->bytes || memcmp(native, packed, bytes)) note_odd("Pack", s);
    OK(MPI_Send(packed, s->bytes, MPI_BYTE, 0, 2, inter));
    MPI_Request request;
    switch (taste(4)) {
    case 0: OK(MPI_Send(room.origin, s->count, s->type, 0, 3, inter)); break;
    case 1: OK(MPI_Ssend(room.origin, s->count, s->type, 0, 3, inter)); break;
    case 2: OK(MPI_Send(packed, s->bytes, MPI_PACKED, 0, 3, inter)); break;
    default:
        OK(MPI_Isend(room.origin, s->count, s->type, 0, 3, inter, &request));
        OK(MPI_Type_free(&s->type)); /* while it is under way */
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    HOLDS(room.memory, room.bytes, (uint64_t)s->round);
    free(packed), free(native), free(room.memory);
}

static void receive_one(struct subject *s)
{
    struct room room, want, native;
    MPI_Status status;
    MPI_Request request;
    int at = 0, got = -1, capacity = s->count + (int)taste(2);
    char *packed = kit_alloc((size_t)s->bytes), *unpacked = kit_alloc((size_t)s->bytes);
    OK(MPI_Recv(packed, s->bytes, MPI_BYTE, 0, 2, inter, MPI_STATUS_IGNORE));
    room_for(s->map, capacity, s->extent, &room);
    room_for(s->map, capacity, s->extent, &want);
    room_for(s->map, capacity, s->extent, &native);
    copy(s->map, want.origin, s->count, s->extent, packed, 1);
    if (s->bytes > 0) OK(MPI_Unpack(packed, s->bytes, &at, native.origin, s->count, s->type, MPI_COMM_WORLD));
    if (at != s->bytes || memcmp(native.memory, want.memory, want.bytes)) note_odd("Unpack", s);
    unsigned how = taste(4);
    if (how == 0) {
        OK(MPI_Recv(unpacked, s->bytes, MPI_PACKED, 0, 3, inter, &status));
        hold("packed", s, unpacked, packed, (size_t)s->bytes);
    } else if (how == 1) {
        OK(MPI_Irecv(room.origin, capacity, s->type, 0, 3, inter, &request));
        OK(MPI_Type_free(&s->type));
        OK(MPI_Wait(&request, &status));
    } else
        OK(MPI_Recv(room.origin, capacity, s->type, 0, 3, inter, &status));
    if (how > 0) hold("received", s, room.memory, want.memory, want.bytes);
    OK(MPI_Get_count(&status, MPI_BYTE, &got));
    SAME(got, s->bytes);
    if (how > 1 && s->bytes > 0) {
        OK(MPI_Get_count(&status, s->type, &got));
        SAME(got, s->count);
    }
    free(packed), free(unpacked), free(room.memory), free(want.memory), free(native.memory);
}

static long long met(long long mine)
{
    long long other = -1;
    OK(MPI_Sendrecv(&mine, 1, MPI_LONG_LONG_INT, 0, 1, &other, 1, MPI_LONG_LONG_INT, 0, 1, inter, MPI_STATUS_IGNORE));
    return other;
}

/* Whether there was a type to send. */
static int one_round(int seed, int round)
{
    struct subject s = {.map = kit_alloc(sizeof *s.map), .seed = seed, .round = round};
    struct room room;
    state = (uint64_t)seed << 32 | (unsigned)round;
    taste_state = ~state * (uint64_t)(side + 1);
    for (int i = 0; i < 8; ++i) draw(2), taste(2);
    s.map->n = 0, story[0] = 0;
    s.type = make(DEPTH, s.map);
    s.count = (int)draw(5);
    int usable = s.map->n <= ELEMENTS;
    if (usable) {
        int size;
        OK(MPI_Type_size(s.type, &size));
        if (size != size_of(s.map)) kit_fail(__FILE__, __LINE__, "size %d, not %d:%s", size, size_of(s.map), story);
        s.extent = extent_of(s.type);
        s.bytes = size * s.count;
        OK(MPI_Type_commit(&s.type));
        usable = room_for(s.map, s.count + 1, s.extent, &room);
        if (usable) free(room.memory);
    }
    if (met(usable) == 0) usable = 0;
    if (usable && side == round % 2)
        send_one(&s);
    else if (usable) {
        if (s.map->n > 0 && (!is_plain(s.map, s.count + 1, s.extent) || taste(3) == 0)) {
            OK(MPI_Type_free(&s.type));
            tell(" scattered");
            s.type = scatter(s.map);
            s.extent = extent_of(s.type);
            OK(MPI_Type_commit(&s.type));
        }
        receive_one(&s);
    }
    if (s.type != MPI_DATATYPE_NULL) OK(MPI_Type_free(&s.type));
    free(s.map);
    return usable;
}

int main(int argc, char **argv)
{
    int handle, used = 0;
    MPI_Init(&argc, &argv);
    if (argc != 6) {
        fprintf(stderr, "types MINE THEIRS SIDE SEED ROUNDS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    kit_label = argv[1], kit_rank = 0;
    side = atoi(argv[3]);
    int seed = atoi(argv[4]), rounds = atoi(argv[5]);
    fill_basics();
    OK(MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
    OK(MPI_Conn_intercomm_create(handle, argv[2], &inter));
    OK(MPI_Conn_remove(handle));
#ifdef LAM_MPI
    lam = 1;
#endif
    lam |= (int)met(lam);
    for (int round = 0; round < rounds; ++round) used += one_round(seed, round);
    CHECK(used * 10 >= rounds * 9, "only %d of %d types could be used", used, rounds);
    OK(MPI_Comm_free(&inter));
    printf("USED %d\nODDS %d\n", used, odd);
    int result = kit_end();
    MPI_Finalize();
    return result;
}
