/* All predefined datatypes that a program may send. */
#ifndef KIT_BASICS_H
#define KIT_BASICS_H

#include "kit.h"
#include <complex.h>
#include <stdbool.h>
#include <wchar.h>

/* `live` has an x for each byte that is data and a dot for each byte of padding, repeated over the type's extent. */
struct basic {
    const char *name;
    MPI_Datatype type;
    size_t size;
    const char *live;
};

UNUSED static int every_type(struct basic *t)
{
    int n = 0;
#define TYPE(t_, c_, live_) t[n++] = (struct basic){#t_, t_, sizeof(c_), live_}
#define PLAIN(t_, c_) TYPE(t_, c_, "x")
    PLAIN(MPI_CHAR, char);
    PLAIN(MPI_SIGNED_CHAR, signed char);
    PLAIN(MPI_UNSIGNED_CHAR, unsigned char);
    PLAIN(MPI_BYTE, char);
    PLAIN(MPI_PACKED, char);
    PLAIN(MPI_WCHAR, wchar_t);
    PLAIN(MPI_SHORT, short);
    PLAIN(MPI_UNSIGNED_SHORT, unsigned short);
    PLAIN(MPI_INT, int);
    PLAIN(MPI_UNSIGNED, unsigned);
    PLAIN(MPI_LONG, long);
    PLAIN(MPI_UNSIGNED_LONG, unsigned long);
    PLAIN(MPI_LONG_LONG_INT, long long);
    PLAIN(MPI_LONG_LONG, long long);
    PLAIN(MPI_UNSIGNED_LONG_LONG, unsigned long long);
    PLAIN(MPI_FLOAT, float);
    PLAIN(MPI_DOUBLE, double);
    TYPE(MPI_LONG_DOUBLE, long double, "xxxxxxxxxx......");
    PLAIN(MPI_INT8_T, int8_t);
    PLAIN(MPI_INT16_T, int16_t);
    PLAIN(MPI_INT32_T, int32_t);
    PLAIN(MPI_INT64_T, int64_t);
    PLAIN(MPI_UINT8_T, uint8_t);
    PLAIN(MPI_UINT16_T, uint16_t);
    PLAIN(MPI_UINT32_T, uint32_t);
    PLAIN(MPI_UINT64_T, uint64_t);
    PLAIN(MPI_C_BOOL, bool);
    PLAIN(MPI_C_COMPLEX, float complex);
    PLAIN(MPI_C_FLOAT_COMPLEX, float complex);
    PLAIN(MPI_C_DOUBLE_COMPLEX, double complex);
    TYPE(MPI_C_LONG_DOUBLE_COMPLEX, long double complex, "xxxxxxxxxx......");
    PLAIN(MPI_AINT, MPI_Aint);
    PLAIN(MPI_OFFSET, MPI_Offset);
    PLAIN(MPI_COUNT, MPI_Count);
    PLAIN(MPI_CXX_BOOL, bool);
    PLAIN(MPI_CXX_FLOAT_COMPLEX, float complex);
    PLAIN(MPI_CXX_DOUBLE_COMPLEX, double complex);
    TYPE(MPI_CXX_LONG_DOUBLE_COMPLEX, long double complex, "xxxxxxxxxx......");
    TYPE(MPI_FLOAT_INT, struct { float a; int b; }, "x");
    TYPE(MPI_2INT, struct { int a; int b; }, "x");
    TYPE(MPI_DOUBLE_INT, struct { double a; int b; }, "xxxxxxxxxxxx....");
    TYPE(MPI_LONG_INT, struct { long a; int b; }, "xxxxxxxxxxxx....");
    TYPE(MPI_SHORT_INT, struct { short a; int b; }, "xx..xxxx");
    TYPE(MPI_LONG_DOUBLE_INT, struct { long double a; int b; }, "xxxxxxxxxx......xxxx............");
    PLAIN(MPI_CHARACTER, char);
    PLAIN(MPI_LOGICAL, int);
    PLAIN(MPI_INTEGER, int);
    PLAIN(MPI_INTEGER1, int8_t);
    PLAIN(MPI_INTEGER2, int16_t);
    PLAIN(MPI_INTEGER4, int32_t);
    PLAIN(MPI_INTEGER8, int64_t);
    PLAIN(MPI_REAL, float);
    PLAIN(MPI_REAL4, float);
    PLAIN(MPI_REAL8, double);
    PLAIN(MPI_DOUBLE_PRECISION, double);
    PLAIN(MPI_COMPLEX, float complex);
    PLAIN(MPI_COMPLEX8, float complex);
    PLAIN(MPI_COMPLEX16, double complex);
    PLAIN(MPI_DOUBLE_COMPLEX, double complex);
    PLAIN(MPI_2REAL, struct { float a[2]; });
    PLAIN(MPI_2DOUBLE_PRECISION, struct { double a[2]; });
    PLAIN(MPI_2INTEGER, struct { int a[2]; });
    return n;
}

#endif
