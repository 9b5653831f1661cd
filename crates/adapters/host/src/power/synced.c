/* Keeps a copy of what a server has synced, so that a power loss can be simulated: kill the server, then put the copy in place of its data.
 *
 * Preloaded into the server (LD_PRELOAD). Each write marks a range of its file; a sync copies the marked ranges and the length of the file into
 * the copy. Created, renamed and removed files are so at once in the copy, as after a journalled change of a directory; a created file
 * is empty there until its first sync. Only files below PLIMSOLL_POWER_DATA count; the copy is at PLIMSOLL_POWER_SYNCED. If the copy
 * cannot be kept, the server is aborted: a wrong copy would accuse it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FDS_MAX 65536
#define CHUNK (1 << 20)

struct range { off_t from, to; };
struct file {
    char *path; /* below the data */
    int copy;   /* descriptor of the copy */
    struct range *dirty;
    size_t len, cap;
    struct file *next;
    pthread_mutex_t syncing;
};

static const char *data, *synced;
static struct file *files, *of_fd[FDS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&name))real(#name))
static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

static void fail(const char *what, const char *path) {
    fprintf(stderr, "power loss: cannot %s %s: %s\n", what, path, strerror(errno));
    abort();
}

__attribute__((constructor)) static void begin(void) {
    data = getenv("PLIMSOLL_POWER_DATA");
    synced = getenv("PLIMSOLL_POWER_SYNCED");
}

/* The path below the data, without dots; NULL if it is elsewhere. */
static char *below(int dir, const char *path) {
    char whole[PATH_MAX], *out, *end;
    if (!data || !synced || !path || (path[0] != '/' && dir != AT_FDCWD)) return NULL;
    if (path[0] == '/') snprintf(whole, sizeof whole, "%s", path);
    else if (!getcwd(whole, sizeof whole / 2)) return NULL;
    else { size_t at = strlen(whole); snprintf(whole + at, sizeof whole - at, "/%s", path); }
    size_t prefix = strlen(data);
    if (strncmp(whole, data, prefix) || whole[prefix] != '/') return NULL;
    out = end = malloc(strlen(whole + prefix) + 1);
    if (!out) fail("keep", path);
    for (char *save, *part = strtok_r(whole + prefix, "/", &save); part; part = strtok_r(NULL, "/", &save)) {
        if (!strcmp(part, ".")) continue;
        if (!strcmp(part, "..")) { free(out); return NULL; }
        end += sprintf(end, "%s%s", end == out ? "" : "/", part);
    }
    *end = 0;
    if (*out) return out;
    free(out);
    return NULL;
}

static char *in_copy(const char *path) {
    char *whole = malloc(strlen(synced) + strlen(path) + 2);
    if (!whole) fail("keep", path);
    sprintf(whole, "%s/%s", synced, path);
    return whole;
}

static struct file *named(const char *path) {
    struct file *file = files;
    while (file && strcmp(file->path, path)) file = file->next;
    return file;
}

/* Under the lock. A removed file keeps its entry while it is open, under a name that no file has. */
static void detach(struct file *file) { file->path[0] = 0; }

static struct file *track(char *path) {
    struct file *file = named(path);
    if (file) { free(path); return file; }
    char *whole = in_copy(path);
    for (char *slash = whole + strlen(synced) + 1; (slash = strchr(slash, '/')); *slash++ = '/') { *slash = 0; mkdir(whole, 0777); }
    file = calloc(1, sizeof *file);
    if (!file) fail("keep", whole);
    file->copy = REAL(open)(whole, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file->copy < 0) fail("create", whole);
    free(whole);
    pthread_mutex_init(&file->syncing, NULL);
    file->path = path;
    file->next = files;
    return files = file;
}

static int opened(int fd, int dir, const char *path, int flags) {
    struct stat stat;
    char *name = fd >= 0 && fd < FDS_MAX && (flags & O_ACCMODE) != O_RDONLY ? below(dir, path) : NULL;
    if (!name) return fd;
    if (fstat(fd, &stat) || !S_ISREG(stat.st_mode)) { free(name); return fd; }
    pthread_mutex_lock(&lock);
    of_fd[fd] = track(name);
    pthread_mutex_unlock(&lock);
    return fd;
}

static void mark(int fd, off_t from, off_t to) {
    if (fd < 0 || fd >= FDS_MAX || to <= from) return;
    pthread_mutex_lock(&lock);
    struct file *file = of_fd[fd];
    if (file) {
        struct range *last = file->len ? &file->dirty[file->len - 1] : NULL;
        if (last && from <= last->to && to >= last->from) {
            if (from < last->from) last->from = from;
            if (to > last->to) last->to = to;
        } else {
            if (file->len == file->cap) {
                file->cap = file->cap ? 2 * file->cap : 64;
                file->dirty = realloc(file->dirty, file->cap * sizeof *file->dirty);
                if (!file->dirty) fail("keep", file->path);
            }
            file->dirty[file->len++] = (struct range){from, to};
        }
    }
    pthread_mutex_unlock(&lock);
}

static void copy(int fd, int into, struct range range, char *buffer) {
    while (range.from < range.to) {
        size_t want = range.to - range.from < CHUNK ? range.to - range.from : CHUNK;
        ssize_t got = pread(fd, buffer, want, range.from);
        if (got < 0) fail("read", "the synced file");
        if (got == 0) return; /* cut short meanwhile */
        if (REAL(pwrite)(into, buffer, got, range.from) != got) fail("write", "the copy");
        range.from += got;
    }
}

/* The ranges are taken before the sync, so that a write during the sync is not taken for synced; their bytes are read after it. */
static int synced_by(int fd, int (*sync)(int)) {
    struct file *file = NULL;
    if (fd >= 0 && fd < FDS_MAX) { pthread_mutex_lock(&lock); file = of_fd[fd]; pthread_mutex_unlock(&lock); }
    if (!file) return sync(fd);
    pthread_mutex_lock(&file->syncing);
    pthread_mutex_lock(&lock);
    struct range *ranges = file->dirty;
    size_t len = file->len;
    file->dirty = NULL;
    file->len = file->cap = 0;
    pthread_mutex_unlock(&lock);
    struct stat stat;
    if (fstat(fd, &stat)) fail("look at", file->path);
    int done = sync(fd);
    if (done == 0) {
        char *buffer = malloc(CHUNK);
        if (!buffer || REAL(ftruncate)(file->copy, stat.st_size)) fail("resize", file->path);
        for (size_t at = 0; at < len; at++) copy(fd, file->copy, ranges[at], buffer);
        free(buffer);
    } else {
        for (size_t at = 0; at < len; at++) mark(fd, ranges[at].from, ranges[at].to);
    }
    free(ranges);
    pthread_mutex_unlock(&file->syncing);
    return done;
}

int fsync(int fd) { return synced_by(fd, REAL(fsync)); }
int fdatasync(int fd) { return synced_by(fd, REAL(fdatasync)); }

#define OPEN(name, ...) \
    int name(const char *path, int flags, ...) { \
        va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \
        return opened(REAL(name)(path, flags, mode), AT_FDCWD, path, flags); \
    }
OPEN(open)
OPEN(open64)
#define OPENAT(name) \
    int name(int dir, const char *path, int flags, ...) { \
        va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \
        return opened(REAL(name)(dir, path, flags, mode), dir, path, flags); \
    }
OPENAT(openat)
OPENAT(openat64)

int close(int fd) {
    if (fd >= 0 && fd < FDS_MAX && data) { pthread_mutex_lock(&lock); of_fd[fd] = NULL; pthread_mutex_unlock(&lock); }
    return REAL(close)(fd);
}

#define PWRITE(name, offset) \
    ssize_t name(int fd, const void *from, size_t len, offset at) { \
        ssize_t done = REAL(name)(fd, from, len, at); \
        mark(fd, at, at + done); \
        return done; \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

static ssize_t appended(int fd, ssize_t done) {
    if (done > 0 && fd < FDS_MAX && of_fd[fd]) { off_t end = lseek(fd, 0, SEEK_CUR); mark(fd, end - done, end); }
    return done;
}
ssize_t write(int fd, const void *from, size_t len) { return appended(fd, REAL(write)(fd, from, len)); }
ssize_t writev(int fd, const struct iovec *from, int count) { return appended(fd, REAL(writev)(fd, from, count)); }

int rename(const char *from, const char *to) {
    int done = REAL(rename)(from, to);
    char *old = done ? NULL : below(AT_FDCWD, from), *new = old ? below(AT_FDCWD, to) : NULL;
    if (old && new) {
        pthread_mutex_lock(&lock);
        struct file *moved = named(old), *replaced = named(new);
        char *whole_old = in_copy(old), *whole_new = in_copy(new);
        if (REAL(rename)(whole_old, whole_new) && errno != ENOENT) fail("rename", whole_old);
        if (replaced && replaced != moved) detach(replaced);
        if (moved && moved != replaced) { free(moved->path); moved->path = strdup(new); }
        free(whole_old);
        free(whole_new);
        pthread_mutex_unlock(&lock);
    }
    free(old);
    free(new);
    return done;
}

static int removed(int done, int dir, const char *path) {
    char *name = done ? NULL : below(dir, path);
    if (name) {
        pthread_mutex_lock(&lock);
        struct file *file = named(name);
        char *whole = in_copy(name);
        if (file) detach(file);
        REAL(unlink)(whole);
        free(whole);
        pthread_mutex_unlock(&lock);
    }
    free(name);
    return done;
}
int unlink(const char *path) { return removed(REAL(unlink)(path), AT_FDCWD, path); }
int unlinkat(int dir, const char *path, int flags) {
    return removed(REAL(unlinkat)(dir, path, flags), dir, flags & AT_REMOVEDIR ? NULL : path);
}

/* A writable shared mapping bypasses the marks: the copy would be wrong. */
static void check_mapping(int fd, int protection, int flags) {
    if (fd >= 0 && fd < FDS_MAX && of_fd[fd] && (protection & PROT_WRITE) && (flags & MAP_SHARED)) {
        errno = ENOTSUP;
        fail("follow writes through memory to", of_fd[fd]->path);
    }
}
void *mmap(void *at, size_t len, int protection, int flags, int fd, off_t from) {
    check_mapping(fd, protection, flags);
    return REAL(mmap)(at, len, protection, flags, fd, from);
}
void *mmap64(void *at, size_t len, int protection, int flags, int fd, off64_t from) {
    check_mapping(fd, protection, flags);
    return REAL(mmap64)(at, len, protection, flags, fd, from);
}
