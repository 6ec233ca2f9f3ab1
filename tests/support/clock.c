/* Sets the wall clock of a process under test: loaded with LD_PRELOAD, it adds an offset to the time of day. The file that
 * COUNTINT_CLOCK names holds the offset in microseconds, as one 64-bit integer; the process sees a change at once. Monotonic clocks
 * stay as they are, as they do when a real clock is set. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t none = 0;
static const volatile int64_t *offset = &none;

__attribute__((constructor)) static void map_offset(void) {
  const char *path = getenv("COUNTINT_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) {
    return;
  }
  void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (page != MAP_FAILED) {
    offset = page;
  }
}

int clock_gettime(clockid_t id, struct timespec *at) {
  /* The system call itself: what the C library has under this name is this function. */
  int result = (int)syscall(SYS_clock_gettime, id, at);
  if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
    int64_t now = at->tv_sec * INT64_C(1000000) + at->tv_nsec / 1000 + *offset;
    at->tv_sec = now / 1000000;
    at->tv_nsec = now % 1000000 * 1000;
  }
  return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  (void)zone;
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) {
    return -1;
  }
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *at) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) {
    return -1;
  }
  if (at) {
    *at = now.tv_sec;
  }
  return now.tv_sec;
}
