/* Long messages to and fro, `halves NAME OTHER SIDE SECTION...`, one rank on either side: whichever way their data comes on one host, it is right, and nothing
 * comes late into a buffer that was given back. With DENIED in the environment the kernel refuses to write to another process's memory. */
#define _GNU_SOURCE
#include "sides.h"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { ROUNDS = 80, MOST = (5 << 20) + 7, STRIPE = 3000, GAP = 1000, OFTEN = (256 << 10) + 1 };

static unsigned char *out, *in, *kept;

static unsigned char value(int sender, int round, int at) { return (unsigned char)(sender * 101 + round * 7 + at / 3); }

static void deny(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog all = {sizeof code / sizeof *code, code};
    CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all));
}

/* Sends `count` of `type`, whose data are `bytes` of `out`, and receives as many. The buffer of the last receive is the program's meanwhile, and stays as it is. */
static void to_and_fro(int count, MPI_Datatype type, int bytes)
{
    for (int round = 0; round < ROUNDS; ++round) {
        MPI_Status status;
        int got, wrong = 0;
        for (int i = 0; i < bytes; ++i) out[i] = value(side, round, i);
        if (side == 0) OK(MPI_Send(out, count, type, 0, round, inter));
        OK(MPI_Recv(in, count, type, 0, round, inter, &status));
        OK(MPI_Get_count(&status, type, &got));
        CHECK(got == count, "%d bytes, round %d: %d", bytes, round, got);
        if (side == 1) OK(MPI_Send(out, count, type, 0, round, inter));
        for (int i = 0; i < bytes; ++i)
            if (type == MPI_BYTE || i % (STRIPE + GAP) < STRIPE) wrong += in[i] != value(!side, round, i);
            else if (round > 1) wrong += in[i] != 0xA5; /* as it was when it was given */
        CHECK(wrong == 0, "%d bytes, round %d: %d wrong", bytes, round, wrong);
        if (round > 0) {
            for (int i = 0; i < bytes; ++i) wrong += kept[i] != 0xA5;
            CHECK(wrong == 0, "%d bytes, round %d: %d written late", bytes, round, wrong);
        }
        memset(in, 0xA5, (size_t)bytes);
        unsigned char *next = kept;
        kept = in;
        in = next;
    }
}

static void meet(void)
{
    char word = 0, other;
    OK(MPI_Sendrecv(&word, 1, MPI_CHAR, me, ROUNDS, &other, 1, MPI_CHAR, me, ROUNDS, inter, MPI_STATUS_IGNORE));
}

static void plain(void)
{
    static const int sizes[] = {16 << 10, 24 << 10, 32 << 10, 64 << 10, 100001, 256 << 10, OFTEN, 1 << 20, MOST};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) to_and_fro(sizes[s], MPI_BYTE, sizes[s]);
    /* Enough of one size for all ways, though many of them meet a sender that sleeps. */
    for (int again = 0; again < 5; ++again) to_and_fro(OFTEN, MPI_BYTE, OFTEN);
}

/* In few pieces, and in more than a request for half of them can name. */
static void pieces(void)
{
    static const int stripes[] = {40, 110, 400};
    MPI_Datatype stripe, resized;
    OK(MPI_Type_contiguous(STRIPE, MPI_BYTE, &stripe));
    OK(MPI_Type_create_resized(stripe, 0, STRIPE + GAP, &resized));
    OK(MPI_Type_commit(&resized));
    for (size_t s = 0; s < sizeof stripes / sizeof *stripes; ++s) to_and_fro(stripes[s], resized, stripes[s] * (STRIPE + GAP));
    OK(MPI_Type_free(&stripe));
    OK(MPI_Type_free(&resized));
}

static const struct kit_section sections[] = {{"plain", plain}, {"pieces", pieces}};

int main(int argc, char **argv)
{
    if (getenv("DENIED")) deny();
    MPI_Init(&argc, &argv);
    out = malloc(MOST);
    in = malloc(MOST);
    kept = malloc(MOST);
    sides_join(argc, argv);
    sides_run(SECTIONS(sections), argv, meet);
    return sides_end();
}
