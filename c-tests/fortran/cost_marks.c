/* For cost.F90: what Fortran cannot say to callgrind, and the ten inter-communicators. */
#include "../c/cost.h"

static int joined;

void cost_begin_(const char *call, const int *times, size_t length)
{
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)length, call);
    cost_begin(name, *times, joined);
}

void cost_pause_(void) { CALLGRIND_TOGGLE_COLLECT; }

void cost_end_(void) { cost_end(); }

void cost_join_(void)
{
    cost_join("air", "ocean");
    joined = 1;
}

void cost_part_(void) { cost_part(); }
