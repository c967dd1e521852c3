// The common part of the programs that check behaviours: PROGRAM lists them, and PROGRAM NAME checks one.
#include <CoreFoundation/CoreFoundation.h>

static int failures;

#define EXPECT(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
            failures++; \
        } \
    } while (0)

#define REQUIRE(condition) \
    do { \
        EXPECT(condition); \
        if (failures) exit(1); \
    } while (0)

struct behaviour {
    const char *name;
    void (*check)(void);
};

#define BEHAVIOUR(name) {#name, name}

static int run_behaviours(const struct behaviour *all, size_t size, int count, char **words) {
    for (size_t at = 0; at < size; at++) {
        if (count == 1) {
            puts(all[at].name);
        } else if (!strcmp(all[at].name, words[1])) {
            all[at].check();
            return failures ? 1 : 0;
        }
    }
    return count == 1 ? 0 : 2;
}
