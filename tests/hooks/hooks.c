/* A module that writes when keyspace events are published, as applications' modules do. The integration tests load it
 * beside CountInt to show that no such write can break a command in progress.
 *
 *   HOOK.ON event key command [arg ...]   whenever `event` is published for `key`, runs the command
 *   HOOK.OFF                              forgets all of them
 *   HOOK.FIRED                            how many commands ran since HOOK.OFF
 *
 * A hook does not run while a hook is running, so hooks cannot recurse. Commands run in the order of HOOK.ON and are
 * replicated. The module API is declared here, as far as it is used, so that building needs a C compiler and no header:
 *
 *   cc -shared -fPIC -o hooks.so hooks.c
 */
#include <stddef.h>
#include <string.h>

typedef struct RedisModuleCtx RedisModuleCtx;
typedef struct RedisModuleString RedisModuleString;
typedef struct RedisModuleCallReply RedisModuleCallReply;
typedef int (*CommandHandler)(RedisModuleCtx *, RedisModuleString **, int);
typedef int (*EventHandler)(RedisModuleCtx *, int, const char *, RedisModuleString *);

enum { OK = 0, ERR = 1, API_VERSION = 1 };

/* Every class of event that Redis 7.0 has, those that NOTIFY_ALL leaves out (keymiss and new) included. */
enum { ALL_EVENTS = 0x7ffc };

static int (*SetModuleAttribs)(RedisModuleCtx *, const char *, int, int);
static int (*CreateCommand)(RedisModuleCtx *, const char *, CommandHandler, const char *, int, int, int);
static int (*SubscribeToKeyspaceEvents)(RedisModuleCtx *, int, EventHandler);
static void *(*Alloc)(size_t);
static void (*Free)(void *);
static void (*RetainString)(RedisModuleCtx *, RedisModuleString *);
static void (*FreeString)(RedisModuleCtx *, RedisModuleString *);
static const char *(*StringPtrLen)(const RedisModuleString *, size_t *);
static int (*StringCompare)(RedisModuleString *, RedisModuleString *);
static RedisModuleCallReply *(*Call)(RedisModuleCtx *, const char *, const char *, ...);
static void (*FreeCallReply)(RedisModuleCallReply *);
static int (*ReplyWithSimpleString)(RedisModuleCtx *, const char *);
static int (*ReplyWithLongLong)(RedisModuleCtx *, long long);
static int (*WrongArity)(RedisModuleCtx *);

/* What HOOK.ON was called with: the event, the key, the command and its arguments. */
struct hook {
    struct hook *next;
    int argc;
    RedisModuleString *argv[];
};

static struct hook *hooks, **last = &hooks;
static long long fired;
static int running;

static void forget(RedisModuleCtx *ctx) {
    while (hooks) {
        struct hook *next = hooks->next;
        for (int i = 0; i < hooks->argc; i++) FreeString(ctx, hooks->argv[i]);
        Free(hooks);
        hooks = next;
    }
    last = &hooks;
    fired = 0;
}

static int on(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    if (argc < 4) return WrongArity(ctx);
    struct hook *hook = Alloc(sizeof *hook + (argc - 1) * sizeof *argv);
    hook->next = NULL;
    hook->argc = argc - 1;
    memcpy(hook->argv, argv + 1, (argc - 1) * sizeof *argv);
    for (int i = 0; i < hook->argc; i++) RetainString(ctx, hook->argv[i]);
    *last = hook;
    last = &hook->next;
    return ReplyWithSimpleString(ctx, "OK");
}

static int off(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    (void)argv;
    if (argc != 1) return WrongArity(ctx);
    forget(ctx);
    return ReplyWithSimpleString(ctx, "OK");
}

static int count(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    (void)argv;
    if (argc != 1) return WrongArity(ctx);
    return ReplyWithLongLong(ctx, fired);
}

static int published(RedisModuleCtx *ctx, int type, const char *event, RedisModuleString *key) {
    (void)type;
    if (running) return OK;
    running = 1;
    for (struct hook *hook = hooks; hook; hook = hook->next) {
        if (strcmp(StringPtrLen(hook->argv[0], NULL), event) || StringCompare(hook->argv[1], key)) continue;
        const char *command = StringPtrLen(hook->argv[2], NULL);
        RedisModuleCallReply *reply = Call(ctx, command, "!v", hook->argv + 3, (size_t)(hook->argc - 3));
        if (reply) FreeCallReply(reply);
        fired++;
    }
    running = 0;
    return OK;
}

int RedisModule_OnLoad(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    (void)argv, (void)argc;
    int (*get)(const char *, void *) = *(int (**)(const char *, void *))ctx;
    int missing = 0;
#define API(name) missing |= get("RedisModule_" #name, (void *)&name)
    API(SetModuleAttribs), API(CreateCommand), API(SubscribeToKeyspaceEvents);
    API(Alloc), API(Free), API(RetainString), API(FreeString), API(StringPtrLen), API(StringCompare);
    API(Call), API(FreeCallReply), API(ReplyWithSimpleString), API(ReplyWithLongLong), API(WrongArity);
    if (missing) return ERR;
    SetModuleAttribs(ctx, "hooks", 1, API_VERSION);
    if (CreateCommand(ctx, "hook.on", on, "", 0, 0, 0) == ERR || CreateCommand(ctx, "hook.off", off, "", 0, 0, 0) == ERR ||
        CreateCommand(ctx, "hook.fired", count, "", 0, 0, 0) == ERR)
        return ERR;
    return SubscribeToKeyspaceEvents(ctx, ALL_EVENTS, published);
}
