/* Softmax over dot products, compiled: `attend` computes a block of queries of one head.

   Letters: n queries, m keys, d and dv the widths of keys and values. Everything is read through the buffer protocol
   and computed without the interpreter's lock. tile.inc is the kernel; it is compiled here for each type of number and
   each kind of processor, of which `levels` tells those that this one can run, the best first. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LOG2_E 1.4426950408889634074
#define COUNT(x) (sizeof(x) / sizeof(*(x)))

enum { KEYS = 128 };                       /* of a tile: the same everywhere, since digits depend on it */
enum { STRIP = 16 };                       /* numbers of a row that are turned at once */
enum { SEES = 1, STRANGE = 2, EMPTY = 1 }; /* marks of a query; its state is 0, EMPTY or STRANGE */

/* A matrix: strides between rows and between the numbers of a row, counted in numbers. */
typedef struct {
  const void *data;
  ptrdiff_t stride, step;
} Table;

/* A block of queries. factor turns products into scores in units of log2(e), or into what `tanh` takes. */
typedef struct {
  ptrdiff_t n, m, d, dv, slots, range_stride;
  Table q, k, v, out, weights, bias, shown;
  const int64_t *ranges;
  void *lse;
  unsigned char *states;
  double factor, limit, cap, sink;
} Job;

/* 2^f = 1 + f (c0 + c1 f + ...) for |f| <= 1/2, with relative errors of 2.9e-9 and 4.0e-18; c0 is ln(2) itself. */
static const float POWERS_F[] = {0.69314718055994530942, 0.24022647589240500912, 0.055503595773499113637,
                                 0.0096185169137834444684, 0.0013390966733767253518, 0.00015324546510182249602};
static const double POWERS_D[] = {0.69314718055994530942,     0.24022650695910109387,   0.055504108664821719564,
                                  0.0096181291076012462415,   0.0013333558146546732725, 0.00015403530449415170112,
                                  0.000015252733633663804715, 1.3215438672114912607e-6, 1.0178160181103905966e-7,
                                  7.0732580594072387144e-9,   4.4388382206649069295e-10};

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define GLUE_(a, b) a##b
#define GLUE(a, b) GLUE_(a, b)
#define V_(name) GLUE(name, SUFFIX)
#define INLINE static inline __attribute__((always_inline)) TARGET

#if defined(__x86_64__)
#define LEVEL _v4
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma")))
#define BYTES 64
#define R_MOST 8
#define N_MOST 2
#include "types.inc"
#undef LEVEL
#undef TARGET
#undef BYTES
#undef R_MOST
#undef N_MOST

#define LEVEL _v3
#define TARGET __attribute__((target("avx2,fma")))
#define BYTES 32
#define R_MOST 4
#define N_MOST 3
#include "types.inc"
#undef LEVEL
#undef TARGET
#undef BYTES
#undef R_MOST
#undef N_MOST
#define BASE "x86-64"
#define BASE_R 4
#define BASE_N 2 /* 16 registers */
#elif defined(__aarch64__)
#define BASE "arm64"
#define BASE_R 8
#define BASE_N 3 /* 32 registers */
#else
#define BASE "generic"
#define BASE_R 4
#define BASE_N 2
#endif

#define LEVEL _base
#define TARGET
#define BYTES 16
#define R_MOST BASE_R
#define N_MOST BASE_N
#include "types.inc"

static const struct {
  const char *name;
  int (*of_float)(const Job *), (*of_double)(const Job *);
} LEVELS[] = {
#if defined(__x86_64__)
    {"x86-64-v4", attend_f_v4, attend_d_v4},
    {"x86-64-v3", attend_f_v3, attend_d_v3},
#endif
    {BASE, attend_f_base, attend_d_base},
};

static int runs(int level) {
#if defined(__x86_64__)
  if (level == 0)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
  if (level == 1) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
  return level < (int)COUNT(LEVELS);
}

/* A buffer of that many axes, of one of some formats, whose numbers lie where numbers of that size may; None is none.
   The last axis may have any stride where `spread`, else its numbers lie side by side. */
static int take(PyObject *from, const char *name, const char *formats, int axes, int flags, int spread, Py_buffer *to) {
  to->obj = NULL, to->buf = NULL;
  if (from == Py_None) return 1;
  if (PyObject_GetBuffer(from, to, PyBUF_STRIDES | PyBUF_FORMAT | flags) < 0) return 0;
  const Py_ssize_t size = to->itemsize;
  int fits = to->ndim == axes && to->format && strchr(formats, to->format[0]) && !to->format[1];
  fits = fits && (uintptr_t)to->buf % size == 0;
  fits = fits && (spread || to->shape[axes - 1] < 2 || to->strides[axes - 1] == size);
  for (int i = 0; fits && i < axes; i++) fits = to->shape[i] < 2 || to->strides[i] % size == 0;
  if (!fits) PyErr_Format(PyExc_ValueError, "%s: %d axes of '%s', aligned, are expected", name, axes, formats);
  return fits;
}

/* The matrix in a buffer, which has to have as many rows and columns as that, or one in place of many where it may. */
static int table(const Py_buffer *x, const char *name, ptrdiff_t rows, ptrdiff_t columns, int one, Table *to) {
  *to = (Table){0};
  if (!x->buf) return 1;
  const int single_row = one && x->shape[0] == 1, single_column = one && x->shape[1] == 1;
  *to = (Table){x->buf, single_row ? 0 : x->strides[0] / x->itemsize, single_column ? 0 : x->strides[1] / x->itemsize};
  if ((single_row || x->shape[0] == rows) && (single_column || x->shape[1] == columns)) return 1;
  PyErr_Format(PyExc_ValueError, "%s: (%zd, %zd) is expected, not (%zd, %zd)", name, rows, columns, x->shape[0],
               x->shape[1]);
  return 0;
}

enum { Q, K, V, OUT, WEIGHTS, LSE, STATES, RANGES, BIAS, SHOWN, BUFFERS };

static PyObject *attend(PyObject *module, PyObject *arguments) {
  PyObject *x[BUFFERS];
  Py_buffer b[BUFFERS];
  Job job = {0};
  double scale;
  int level, result = -1;
  (void)module;
  if (!PyArg_ParseTuple(arguments, "iOOOOOOOOOOddd", &level, x + Q, x + K, x + V, x + OUT, x + WEIGHTS, x + LSE,
                        x + STATES, x + RANGES, x + BIAS, x + SHOWN, &scale, &job.cap, &job.sink))
    return NULL;
  if (level < 0 || !runs(level)) return PyErr_Format(PyExc_ValueError, "level %d does not run here", level);
  for (int i = 0; i < BUFFERS; i++) b[i].obj = NULL;
  if (!take(x[Q], "q", "fd", 2, 0, 0, b + Q)) goto end;
  const char *same = !b[Q].buf ? "" : b[Q].itemsize == 4 ? "f" : "d";
  if (!take(x[K], "k", same, 2, 0, 0, b + K) || !take(x[V], "v", same, 2, 0, 0, b + V) ||
      !take(x[OUT], "out", same, 2, PyBUF_WRITABLE, 0, b + OUT) ||
      !take(x[WEIGHTS], "weights", same, 2, PyBUF_WRITABLE, 0, b + WEIGHTS) ||
      !take(x[LSE], "lse", same, 1, PyBUF_WRITABLE, 0, b + LSE) ||
      !take(x[STATES], "states", "B", 1, PyBUF_WRITABLE, 0, b + STATES) ||
      !take(x[RANGES], "ranges", "lq", 3, 0, 0, b + RANGES) || !take(x[BIAS], "bias", same, 2, 0, 1, b + BIAS) ||
      !take(x[SHOWN], "shown", "?B", 2, 0, 1, b + SHOWN))
    goto end;
  if (!b[Q].buf || !b[K].buf || !b[V].buf || !b[OUT].buf || !b[STATES].buf) {
    PyErr_SetString(PyExc_ValueError, "q, k, v, out and states are needed");
    goto end;
  }
  job.n = b[Q].shape[0], job.d = b[Q].shape[1], job.m = b[K].shape[0], job.dv = b[V].shape[1];
  if (!table(b + Q, "q", job.n, job.d, 0, &job.q) || !table(b + K, "k", job.m, job.d, 0, &job.k) ||
      !table(b + V, "v", job.m, job.dv, 0, &job.v) || !table(b + OUT, "out", job.n, job.dv, 0, &job.out) ||
      !table(b + WEIGHTS, "weights", job.n, job.m, 0, &job.weights) ||
      !table(b + BIAS, "bias", job.n, job.m, 1, &job.bias) || !table(b + SHOWN, "shown", job.n, job.m, 1, &job.shown))
    goto end;
  job.lse = b[LSE].buf, job.states = b[STATES].buf, job.ranges = b[RANGES].buf, job.slots = 1;
  if ((job.lse && b[LSE].shape[0] != job.n) || b[STATES].shape[0] != job.n) {
    PyErr_SetString(PyExc_ValueError, "lse, states: one for each query is expected");
    goto end;
  }
  if (job.ranges) {
    const Py_ssize_t *shape = b[RANGES].shape, *strides = b[RANGES].strides;
    job.slots = shape[1], job.range_stride = shape[0] == 1 ? 0 : strides[0] / 8;
    const int rows = shape[0] == 1 || shape[0] == job.n, beside = shape[1] < 2 || strides[1] == 16;
    if (b[RANGES].itemsize != 8 || !rows || shape[2] != 2 || !beside) {
      PyErr_SetString(PyExc_ValueError, "ranges: (n, ranges of a query, 2) of int64 is expected");
      goto end;
    }
  }
  job.factor = job.cap == 0 ? scale * LOG2_E : 2 * scale * LOG2_E / job.cap;
  /* How large a query's numbers may be; rules that are not finite, or too large, leave no query that is right. */
  const double limit = b[Q].itemsize == 4 ? 0x1p54 : 0x1p480, steep = fmax(fabs(job.factor), fabs(job.cap * LOG2_E));
  const int fine = steep <= limit && (fabs(job.sink * LOG2_E) <= limit || job.sink == -INFINITY);
  job.limit = fine && isfinite(job.factor) && isfinite(job.cap) ? limit / fmax(1, fabs(job.factor)) : -1;
  Py_BEGIN_ALLOW_THREADS
  result = b[Q].itemsize == 4 ? LEVELS[level].of_float(&job) : LEVELS[level].of_double(&job);
  Py_END_ALLOW_THREADS
  if (result < 0) PyErr_NoMemory();
end:
  for (int i = 0; i < BUFFERS; i++)
    if (b[i].obj) PyBuffer_Release(b + i);
  if (result < 0) return NULL;
  Py_RETURN_NONE;
}

static PyObject *levels(PyObject *module, PyObject *none) {
  PyObject *names = PyList_New(0);
  (void)module, (void)none;
  for (int i = 0; names && i < (int)COUNT(LEVELS); i++) {
    PyObject *name = runs(i) ? Py_BuildValue("(is)", i, LEVELS[i].name) : NULL;
    if (name && PyList_Append(names, name) < 0) Py_CLEAR(names);
    Py_XDECREF(name);
  }
  return names;
}

static PyMethodDef METHODS[] = {
    {"attend", attend, METH_VARARGS,
     "attend(level, q, k, v, out, weights, lse, states, ranges, bias, shown, scale, softcap, sink)\n\n"
     "Compute a block of queries (n, d) of one head with all its keys (m, d) and values (m, dv)."},
    {"levels", levels, METH_NOARGS, "The kinds of processor that this one can stand for, (number, name), best first."},
    {0}};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, .m_name = "_tile", .m_size = 0, .m_methods = METHODS};

PyMODINIT_FUNC PyInit__tile(void) { return PyModuleDef_Init(&MODULE); }
