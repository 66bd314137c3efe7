/* PVM's own messages: two tasks on one host, by its direct route.
 *   pvm SAMPLES SLICE_MS LARGEST
 * The first task starts the daemon, spawns the second, and halts the daemon. */
#include "bench.h"
#include <pvm3.h>
#include <signal.h>
#include <unistd.h>

static int task;

static void pvm_give(const void *from, size_t bytes)
{
    pvm_initsend(PvmDataInPlace);
    if (bytes) pvm_pkbyte((char *)(uintptr_t)from, (int)bytes, 1);
    if (pvm_send(task, 1) < 0) fail("pvm_send");
}

static void pvm_take(void *to, size_t bytes)
{
    if (pvm_recv(task, 1) < 0) fail("pvm_recv");
    if (bytes && pvm_upkbyte(to, (int)bytes, 1) < 0) fail("pvm_upkbyte");
}

int main(int argc, char **argv)
{
    if (argc != 4) fail("arguments: SAMPLES SLICE_MS LARGEST");
    settings(argv + 1);
    /* A task that the daemon spawned has its socket in the environment. */
    channel.side = getenv("PVMEPID") != NULL;
    char program[4096] = {0};
    if (!channel.side) {
        char *none[] = {NULL};
        if (readlink("/proc/self/exe", program, sizeof program - 1) < 0) fail("/proc/self/exe");
        if (pvm_start_pvmd(0, none, 1) < 0) fail("no daemon");
    }
    if (pvm_mytid() < 0) fail("pvm_mytid");
    pvm_setopt(PvmRoute, PvmRouteDirect);
    if (channel.side) {
        task = pvm_parent();
    } else if (pvm_spawn(program, argv + 1, PvmTaskDefault, "", 1, &task) != 1) {
        pvm_halt();
        fail("pvm_spawn");
    }
    pin(channel.side);
    channel.send = pvm_give;
    channel.recv = pvm_take;
    pingpong();
    if (!channel.side) print_lines();
    if (channel.side) {
        pvm_exit();
    } else {
        signal(SIGTERM, SIG_IGN); /* the daemon's last word to its tasks */
        pvm_halt();
    }
    return 0;
}
