/* Records how much of each file a process under test has synced: loaded with LD_PRELOAD, it writes the size that the file had before the
 * sync into $COUNTINT_DISK/NAME. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int synced(int fd, const char *function) {
    int (*original)(int) = (int (*)(int))dlsym(RTLD_NEXT, function);
    const char *directory = getenv("COUNTINT_DISK");
    struct stat file;
    char link[64], path[4096], record[8192];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    int is_file = fstat(fd, &file) == 0 && S_ISREG(file.st_mode);
    int result = original(fd);
    if (result != 0 || !is_file || length <= 0 || directory == NULL)
        return result;
    path[length] = 0;
    const char *name = strrchr(path, '/');
    snprintf(record, sizeof record, "%s/%s", directory, name == NULL ? path : name + 1);
    int to = open(record, O_WRONLY | O_CREAT, 0600);
    if (to >= 0) {
        /* Of one width: a shorter one would leave digits of a longer one. */
        dprintf(to, "%020lld", (long long)file.st_size);
        close(to);
    }
    return result;
}

int fsync(int fd) { return synced(fd, "fsync"); }

int fdatasync(int fd) { return synced(fd, "fdatasync"); }
