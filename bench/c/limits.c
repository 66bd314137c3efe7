/* What the machine itself gives, without any MPI: two processes and bare memory, or bare sockets.
 *   limits line|ring|readv|memcpy|polling|blocking SAMPLES SLICE_MS LARGEST
 */
#include "bench.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* A part of a message in the ring is a quarter of it, within these bounds: as is best on the machine at hand. */
enum { LEAST_PART = 16 << 10, MOST_PART = 64 << 10, PARTS = 8 };

/* What both processes see. A word each way, alone on its cache lines; the second line is the prefetcher's. What has been
 * seen lies apart: who gets an answer need not look. */
static struct shared {
    struct {
        _Alignas(128) _Atomic uint64_t turn;
        uint64_t value;
        _Alignas(128) _Atomic uint64_t seen;
    } way[2];
    _Atomic int pid[2];
    /* For each way: how many parts are there, and how many were taken. */
    struct {
        _Alignas(128) _Atomic uint64_t there;
        _Alignas(128) _Atomic uint64_t taken;
    } ring[2];
    /* An answer goes where the message was, whose lines both have. So both sides may not send at a time. */
    _Alignas(4096) char parts[PARTS][MOST_PART];
} *shared;

/* Words sent and received. Whether a word, or a message in the ring, was sent since the last answer: there is room for one. */
static uint64_t turns[2];
static int unanswered;

static void put_word(uint64_t word)
{
    while (unanswered && atomic_load_explicit(&shared->way[!channel.side].seen, memory_order_acquire) != turns[0]) {}
    unanswered = 1;
    shared->way[channel.side].value = word;
    atomic_store_explicit(&shared->way[channel.side].turn, ++turns[0], memory_order_release);
}

static uint64_t word_that_comes(void)
{
    ++turns[1];
    while (atomic_load_explicit(&shared->way[!channel.side].turn, memory_order_acquire) != turns[1]) {}
    return shared->way[!channel.side].value;
}

static void word_is_seen(void)
{
    atomic_store_explicit(&shared->way[channel.side].seen, turns[1], memory_order_release);
    unanswered = 0;
}

/* One word of data goes in the line that says that it is there. */
static void line_send(const void *from, size_t bytes)
{
    uint64_t word = 0;
    memcpy(&word, from, bytes);
    put_word(word);
}

static void line_recv(void *to, size_t bytes)
{
    uint64_t word = word_that_comes();
    word_is_seen();
    memcpy(to, &word, bytes);
}

/* The receiver fetches the bytes out of the sender's memory; the sender waits until it has. */
static void readv_send(const void *from, size_t bytes)
{
    (void)bytes;
    put_word((uintptr_t)from);
    while (atomic_load_explicit(&shared->way[!channel.side].seen, memory_order_acquire) != turns[0]) {}
}

static void readv_recv(void *to, size_t bytes)
{
    struct iovec mine = {to, bytes}, others = {(void *)word_that_comes(), bytes};
    if (bytes && process_vm_readv(shared->pid[!channel.side], &mine, 1, &others, 1, 0) != (ssize_t)bytes)
        fail("process_vm_readv");
    word_is_seen();
}

static size_t part_of(size_t bytes)
{
    size_t part = bytes / 4;
    return part < LEAST_PART ? LEAST_PART : part > MOST_PART ? MOST_PART : part;
}

/* What a ring in shared memory takes by itself: both copy at a time, part by part. There is nothing but the bytes. A message begins at the first
 * part when all before it has been taken, as an answer shows by itself. */
static void ring_send(const void *from, size_t bytes)
{
    static uint64_t sent;
    __typeof__(shared->ring[0]) *ring = &shared->ring[channel.side];
    size_t at = 0, part = 0, longest = part_of(bytes);
    while (unanswered && atomic_load_explicit(&ring->taken, memory_order_acquire) != sent) {}
    unanswered = 1;
    do {
        size_t now = bytes - at < longest ? bytes - at : longest;
        while (part >= PARTS && sent - atomic_load_explicit(&ring->taken, memory_order_acquire) >= PARTS) {}
        const char *here = (const char *)from + at;
        char *there = shared->parts[part++ % PARTS];
#ifdef __x86_64__
        /* It takes lines whole, where other stores fetch them first. */
        if (now >= 256) {
            size_t left = now;
            __asm__ volatile("rep movsb" : "+D"(there), "+S"(here), "+c"(left) : : "memory");
        } else
#endif
            memcpy(there, here, now);
        atomic_store_explicit(&ring->there, ++sent, memory_order_release);
        at += now;
    } while (at < bytes);
}

static void ring_recv(void *to, size_t bytes)
{
    static uint64_t got;
    __typeof__(shared->ring[0]) *ring = &shared->ring[!channel.side];
    size_t at = 0, part = 0, longest = part_of(bytes);
    do {
        size_t now = bytes - at < longest ? bytes - at : longest;
        while (atomic_load_explicit(&ring->there, memory_order_acquire) == got) {}
        memcpy((char *)to + at, shared->parts[part++ % PARTS], now);
        atomic_store_explicit(&ring->taken, ++got, memory_order_release);
        at += now;
    } while (at < bytes);
    unanswered = 0;
}

static int wire;

/* No write has more: one of all that is left takes a tenth longer from 1 MiB on, since the other side begins later. */
enum { MOST_WRITE = 512 << 10 };

/* Polls, where the socket does not block. */
static void socket_send(const void *from, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t n = send(wire, (const char *)from + at, bytes - at < MOST_WRITE ? bytes - at : MOST_WRITE, 0);
        if (n > 0) at += (size_t)n;
        else if (errno != EAGAIN) fail("send");
    }
}

static void socket_recv(void *to, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t n = recv(wire, (char *)to + at, bytes - at, 0);
        if (n > 0) at += (size_t)n;
        else if (n == 0 || errno != EAGAIN) fail("recv");
    }
}

/* A message of nothing is a byte: something has to come. */
static void some_socket_send(const void *from, size_t bytes) { socket_send(bytes ? from : "", bytes ? bytes : 1); }

static void some_socket_recv(void *to, size_t bytes)
{
    char byte;
    socket_recv(bytes ? to : &byte, bytes ? bytes : 1);
}

/* Two connected TCP sockets over loopback, before the fork. */
static void connect_sockets(int ends[2], int polling)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (bind(listener, (void *)&at, sizeof at) || listen(listener, 1)) fail("listen");
    if (getsockname(listener, (void *)&at, &length)) fail("getsockname");
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(ends[0], (void *)&at, sizeof at)) fail("connect");
    ends[1] = accept(listener, NULL, NULL);
    for (int i = 0; i < 2; ++i) {
        setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (polling) fcntl(ends[i], F_SETFL, O_NONBLOCK);
    }
    close(listener);
}

static void copy_rounds(long n)
{
    for (long i = 0; i < n; ++i) {
        memcpy(incoming, outgoing, now_bytes);
        __asm__ volatile("" : : "r"(incoming) : "memory");
    }
}

static void ignore_send(const void *from, size_t bytes) { (void)from, (void)bytes; }

/* Data with gaps, copied from like to like by one process. */
static void vector_rounds(long n)
{
    for (long i = 0; i < n; ++i) {
        for (size_t at = 0; at < 2 * DOUBLES; at += 2) ((double *)incoming)[at] = ((double *)outgoing)[at];
        __asm__ volatile("" : : "r"(incoming) : "memory");
    }
}

static void struct_rounds(long n)
{
    for (long i = 0; i < n; ++i) {
        for (size_t at = 0; at < PARTICLES; ++at) {
            const struct particle *from = (struct particle *)outgoing + at;
            struct particle *to = (struct particle *)incoming + at;
            to->kind = from->kind;
            to->mass = from->mass;
            to->cell = from->cell;
        }
        __asm__ volatile("" : : "r"(incoming) : "memory");
    }
}

/* One process copies: what it takes is what half a round trip would. */
static void copies(void)
{
    size_t gaps = 2 * sizeof(double) * DOUBLES, structs = sizeof(struct particle) * PARTICLES;
    size_t bytes = most > gaps ? most : gaps;
    if (bytes < structs) bytes = structs;
    channel.send = ignore_send;
    unsetenv("BENCH_LINE");
    pin(0);
    outgoing = memory(bytes);
    incoming = memory(bytes);
    for (now_bytes = 8; now_bytes <= most; now_bytes *= now_bytes == 8 ? 8 : 4)
        measure("pingpong", (long)now_bytes, "us", 1e6, 0, copy_rounds);
    measure("vector", 1 << 20, "us", 1e6, 0, vector_rounds);
    measure("struct", PARTICLES * 13, "us", 1e6, 0, struct_rounds);
    print_lines();
}

int main(int argc, char **argv)
{
    if (argc != 5) fail("arguments: MODE SAMPLES SLICE_MS LARGEST");
    settings(argv + 2);
    int is_line = !strcmp(argv[1], "line"), is_readv = !strcmp(argv[1], "readv"), is_ring = !strcmp(argv[1], "ring"), ends[2] = {-1, -1};
    int polling = !strcmp(argv[1], "polling");
    if (!strcmp(argv[1], "memcpy")) {
        copies();
        return 0;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) fail("no memory");
    if (!is_line && !is_readv && !is_ring) {
        if (!polling && strcmp(argv[1], "blocking")) fail("no such mode");
        connect_sockets(ends, polling);
    }
    pid_t child = fork();
    if (child < 0) fail("fork");
    if (!child) prctl(PR_SET_PDEATHSIG, SIGKILL); /* a limit on the parent is one on both */
    channel.side = !child;
    channel.send = is_line ? line_send : is_readv ? readv_send : is_ring ? ring_send : some_socket_send;
    channel.recv = is_line ? line_recv : is_readv ? readv_recv : is_ring ? ring_recv : some_socket_recv;
    wire = ends[channel.side];
    pin(channel.side);
    if (is_line || is_readv) {
        shared->pid[channel.side] = getpid();
        /* Both say who they are. One after the other: a word that comes answers ours. */
        if (!channel.side) put_word(0);
        word_that_comes();
        word_is_seen();
        if (channel.side) put_word(0);
    }
    if (is_line) {
        outgoing = memory(8);
        incoming = memory(8);
        now_bytes = 8;
        measure("pingpong", 8, "us", 0.5e6, 0, pingpong_rounds);
    } else {
        pingpong();
    }
    if (!child) return 0;
    int status;
    if (waitpid(child, &status, 0) != child || status) fail("the other side failed");
    print_lines();
    return 0;
}
