/* Buffers of random.c: so many units of a signature, laid out in one of several ways, between guard bytes. The
 * content of unit k is the same for every layout, so what arrives can be told whoever sent it. */
#ifndef RANDOM_TYPES_H
#define RANDOM_TYPES_H

enum { GUARD = 64, UNTOUCHED = 0xA5, WIDTH = 3, SIGNATURES = 9, BASIC = 7, SHAPES = 8 };

/* What a unit consists of. */
struct signature {
    int n, bytes; /* basic types, and their data together */
    int sizes[WIDTH];
    MPI_Datatype basics[WIDTH];
};

static struct signature signatures[SIGNATURES];

static void fill_signatures(void)
{
    struct signature all[SIGNATURES] = {
        {1, 1, {1}, {MPI_CHAR}},
        {1, 1, {1}, {MPI_BYTE}},
        {1, 2, {2}, {MPI_SHORT}},
        {1, 4, {4}, {MPI_INT}},
        {1, 4, {4}, {MPI_FLOAT}},
        {1, 8, {8}, {MPI_DOUBLE}},
        {1, 8, {8}, {MPI_LONG_LONG_INT}},
        /* Structs, from BASIC on. */
        {2, 12, {4, 8}, {MPI_INT, MPI_DOUBLE}},
        {3, 11, {1, 2, 8}, {MPI_CHAR, MPI_SHORT, MPI_DOUBLE}},
    };
    memcpy(signatures, all, sizeof all);
}

struct buffer {
    const struct signature *of;
    int units;
    MPI_Datatype type; /* `count` of it are the units */
    int count, shape;
    MPI_Aint low, extent; /* of a unit */
    MPI_Aint *at, offset[WIDTH]; /* of each unit; within a unit */
    char *memory, *origin;
    size_t bytes;
};

/* The type of one unit, and from one to the next in an array. */
static MPI_Datatype make_unit(struct buffer *b, MPI_Aint *extent)
{
    const struct signature *s = b->of;
    MPI_Datatype inner = s->basics[0], made;
    *extent = s->bytes, b->low = 0;
    memset(b->offset, 0, sizeof b->offset);
    if (s->n == 1 && layout(3)) {
        OK(MPI_Type_contiguous(1, inner, &made));
        return made;
    }
    if (s->n > 1) {
        int lengths[WIDTH] = {1, 1, 1}, down = (int)layout(2);
        for (int i = 0; i < s->n; ++i) b->offset[i] = 8 * (down ? s->n - 1 - i : i);
        OK(MPI_Type_create_struct(s->n, lengths, b->offset, (MPI_Datatype *)s->basics, &inner));
        *extent = 8 * s->n;
    }
    /* A lower bound below the data, and room behind it. */
    b->low = -8 * (MPI_Aint)layout(3);
    *extent = (*extent + 7) / 8 * 8 + 8 * (MPI_Aint)layout(3);
    OK(MPI_Type_create_resized(inner, b->low, *extent, &made));
    if (s->n > 1) OK(MPI_Type_free(&inner));
    return made;
}


/* Units in few blocks of uneven length, the places ever higher or ever lower. */
static void make_blocks(struct buffer *b, MPI_Datatype unit, MPI_Aint extent, int in_bytes)
{
    enum { MOST = 7 };
    int lengths[MOST], steps[MOST], n = 0, down = (int)layout(2);
    MPI_Aint far[MOST], place = 0;
    for (int done = 0; done < b->units; ++n) {
        int left = b->units - done, length = n == MOST - 1 ? left : (int)layout((unsigned)left / 2 + 2);
        place = down ? place - length : place + (MPI_Aint)layout(4);
        lengths[n] = length, steps[n] = (int)place, far[n] = place * extent;
        for (int k = 0; k < length; ++k) b->at[done + k] = (place + k) * extent;
        done += length;
        place = down ? place - 1 - (MPI_Aint)layout(4) : place + length;
    }
    if (in_bytes) OK(MPI_Type_create_hindexed(n, lengths, far, unit, &b->type));
    else OK(MPI_Type_indexed(n, lengths, steps, unit, &b->type));
}

static void make_layout(struct buffer *b, MPI_Datatype unit, MPI_Aint extent)
{
    int n = b->units, block = n % 4 == 0 ? 4 : n % 3 == 0 ? 3 : n % 2 == 0 ? 2 : 1, rows = n / block;
    int stride = block + (int)layout(4);
    if (layout(3) == 0) stride = -stride - 1;
    b->count = 1;
    for (int k = 0; k < n; ++k) b->at[k] = k * extent;
    unsigned shape = n == 0 ? 0 : layout(SHAPES);
    b->shape = (int)shape, b->extent = extent;
    switch (shape) {
    case 3: OK(MPI_Type_contiguous(n, unit, &b->type)); break;
    case 4:
        for (int k = 0; k < n; ++k) b->at[k] = ((MPI_Aint)(k / block) * stride + k % block) * extent;
        OK(MPI_Type_vector(rows, block, stride, unit, &b->type));
        break;
    case 5:
    case 6: make_blocks(b, unit, extent, shape == 6); break;
    case 7: {
        int wide = block + 2, sizes[2] = {rows + 2, wide}, parts[2] = {rows, block}, starts[2] = {1, (int)layout(3)};
        for (int k = 0; k < n; ++k) b->at[k] = ((MPI_Aint)(1 + k / block) * wide + starts[1] + k % block) * extent;
        OK(MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, unit, &b->type));
        break;
    }
    default:
        b->count = n;
        OK(MPI_Type_dup(unit, &b->type));
    }
}

static void clear(struct buffer *b) { memset(b->memory, UNTOUCHED, b->bytes); }

static struct buffer *make_buffer(int signature, int units, uint64_t seed)
{
    layout_state = seed;
    for (int i = 0; i < 4; ++i) layout(2);
    struct buffer *b = kit_alloc(sizeof *b);
    MPI_Aint extent, low = 0, high = 0;
    b->of = &signatures[signature], b->units = units;
    b->at = kit_alloc((size_t)units * sizeof *b->at);
    MPI_Datatype unit = make_unit(b, &extent);
    make_layout(b, unit, extent);
    OK(MPI_Type_free(&unit));
    OK(MPI_Type_commit(&b->type));
    for (int k = 0; k < units; ++k) {
        low = b->at[k] < low ? b->at[k] : low;
        high = b->at[k] + 8 * WIDTH > high ? b->at[k] + 8 * WIDTH : high;
    }
    b->bytes = ((size_t)(high - low) + 2 * GUARD + 7) / 8 * 8;
    b->memory = kit_alloc(b->bytes);
    b->origin = b->memory + GUARD - low;
    return b;
}

static void free_buffer(struct buffer *b)
{
    if (!b) return;
    if (b->type != MPI_DATATYPE_NULL) OK(MPI_Type_free(&b->type));
    free(b->at), free(b->memory), free(b);
}

static void put_units(const struct buffer *b, char *origin, int units, const char *packed)
{
    for (int k = 0; k < units; ++k)
        for (int i = 0; i < b->of->n; ++i) {
            memcpy(origin + b->at[k] + b->offset[i], packed, (size_t)b->of->sizes[i]);
            packed += b->of->sizes[i];
        }
}

/* Writes message `seed` of so many units into the buffer; all else is untouched. */
static void write_units(struct buffer *b, int units, uint64_t seed)
{
    char *packed = kit_alloc((size_t)units * (size_t)b->of->bytes);
    kit_fill(packed, (size_t)units * (size_t)b->of->bytes, seed);
    clear(b);
    put_units(b, b->origin, units, packed);
    free(packed);
}

/* Whether it holds this message and nothing else was touched. */
static int holds_units(const struct buffer *b, int units, uint64_t seed)
{
    struct buffer want = *b;
    want.memory = kit_alloc(b->bytes);
    want.origin = want.memory + (b->origin - b->memory);
    write_units(&want, units, seed);
    int same = memcmp(want.memory, b->memory, b->bytes) == 0;
    free(want.memory);
    return same;
}

/* How it is laid out, for failures. */
static const char *told(const struct buffer *b)
{
    static __thread char text[200];
    snprintf(text, sizeof text, "(signature %d, shape %d, %d units of %ld bytes from %ld)", (int)(b->of - signatures),
             b->shape, b->units, (long)b->extent, (long)b->low);
    return text;
}

/* Whether nothing but the units was touched; they are spoilt. */
static int is_guarded(struct buffer *b)
{
    char *blank = kit_alloc((size_t)b->units * (size_t)b->of->bytes);
    put_units(b, b->origin, b->units, blank);
    free(blank);
    for (size_t i = 0; i < b->bytes; ++i)
        if ((unsigned char)b->memory[i] != UNTOUCHED) return 0;
    return 1;
}

static uint64_t sum_of(const void *memory, size_t bytes)
{
    uint64_t sum = 0xCBF29CE484222325u, word;
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        memcpy(&word, (const char *)memory + i, 8);
        sum = (sum ^ word) * 0x100000001B3u;
        sum ^= sum >> 29;
    }
    return sum;
}

#endif
