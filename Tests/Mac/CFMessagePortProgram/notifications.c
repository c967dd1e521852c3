// One behaviour of CFNotificationCenter a run, as Apple documents it.
#include "behaviours.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME CFSTR("com.example.changed")

struct notes {
    int calls;
    CFNotificationCenterRef center;
    const void *object;
    Boolean removes, isMainThread;
    char name[64], text[64], objectText[64];
};

static pthread_t mainThread;

static void copy(CFStringRef text, char *to) {
    *to = 0;
    if (text) CFStringGetCString(text, to, 64, kCFStringEncodingUTF8);
}

static void note(
    CFNotificationCenterRef center, void *observer, CFStringRef name, const void *object, CFDictionaryRef userInfo) {
    struct notes *notes = observer;
    notes->calls++;
    notes->center = center;
    notes->object = object;
    notes->isMainThread = pthread_equal(pthread_self(), mainThread);
    copy(name, notes->name);
    copy(userInfo ? CFDictionaryGetValue(userInfo, CFSTR("text")) : NULL, notes->text);
    copy(center == CFNotificationCenterGetDistributedCenter() ? object : NULL, notes->objectText);
    if (notes->removes) CFNotificationCenterRemoveEveryObserver(center, observer);
}

static CFDictionaryRef makeInfo(const char *text) {
    CFStringRef string = CFStringCreateWithCString(NULL, text, kCFStringEncodingUTF8);
    const void *keys[] = {CFSTR("text")}, *values[] = {string};
    CFDictionaryRef made = CFDictionaryCreate(
        NULL, keys, values, 1, &kCFTypeDictionaryKeyCallBacks, &kCFTypeDictionaryValueCallBacks);
    CFRelease(string);
    return made;
}

static void post(CFNotificationCenterRef center, CFStringRef name, const void *object, const char *text, Boolean now) {
    CFDictionaryRef info = text ? makeInfo(text) : NULL;
    CFNotificationCenterPostNotification(center, name, object, info, now);
    if (info) CFRelease(info);
}

static void add(CFNotificationCenterRef center, struct notes *notes, CFStringRef name, const void *object) {
    CFNotificationCenterAddObserver(
        center, notes, note, name, object, CFNotificationSuspensionBehaviorDeliverImmediately);
}

static void run(CFTimeInterval seconds) { CFRunLoopRunInMode(kCFRunLoopDefaultMode, seconds, true); }

static void runUntil(struct notes *notes, int calls) {
    for (int count = 0; count < 1000 && notes->calls < calls; count++) run(0.02);
    EXPECT(notes->calls == calls);
}

static void a_centre_is_a_CFType(void) {
    CFNotificationCenterRef local = CFNotificationCenterGetLocalCenter();
    REQUIRE(local && CFGetTypeID(local) == CFNotificationCenterGetTypeID());
    EXPECT(local == CFNotificationCenterGetLocalCenter());
    CFNotificationCenterRef distributed = CFNotificationCenterGetDistributedCenter();
    CFNotificationCenterRef darwin = CFNotificationCenterGetDarwinNotifyCenter();
    EXPECT(distributed && darwin && local != distributed && distributed != darwin);
    EXPECT(distributed == CFNotificationCenterGetDistributedCenter());
    EXPECT(darwin == CFNotificationCenterGetDarwinNotifyCenter());
    CFRetain(local);
    CFRelease(local);
    CFStringRef text = CFCopyDescription(darwin);
    EXPECT(CFStringFind(text, CFSTR("CFNotificationCenter"), 0).location != kCFNotFound);
    CFRelease(text);
}

static void the_local_centre_calls_at_once(void) {
    CFNotificationCenterRef center = CFNotificationCenterGetLocalCenter();
    int object = 0, other = 0;
    struct notes all = {0}, named = {0}, objects = {0}, both = {0};
    add(center, &all, NULL, NULL);
    add(center, &named, NAME, NULL);
    add(center, &objects, NULL, &object);
    add(center, &both, NAME, &object);
    post(center, NAME, &object, "first", false);
    EXPECT(all.calls == 1 && named.calls == 1 && objects.calls == 1 && both.calls == 1);
    EXPECT(!strcmp(both.name, "com.example.changed") && !strcmp(both.text, "first"));
    EXPECT(both.object == &object && both.center == center);
    post(center, NAME, &other, NULL, false);
    EXPECT(all.calls == 2 && named.calls == 2 && objects.calls == 1 && both.calls == 1);
    post(center, CFSTR("com.example.other"), &object, NULL, false);
    EXPECT(all.calls == 3 && named.calls == 2 && objects.calls == 2 && both.calls == 1);
    CFNotificationCenterPostNotificationWithOptions(center, NAME, NULL, NULL, kCFNotificationDeliverImmediately);
    EXPECT(all.calls == 4 && named.calls == 3 && objects.calls == 2 && !named.object && !named.text[0]);
    struct notes *list[] = {&all, &named, &objects, &both};
    for (int at = 0; at < 4; at++) CFNotificationCenterRemoveEveryObserver(center, list[at]);
    post(center, NAME, &object, NULL, false);
    EXPECT(all.calls == 4 && named.calls == 3 && objects.calls == 2 && both.calls == 1);
}

static void an_observer_leaves_as_it_has_come(void) {
    CFNotificationCenterRef center = CFNotificationCenterGetLocalCenter();
    int one = 0, two = 0;
    struct notes notes = {0}, others = {0};
    add(center, &notes, NAME, &one);
    add(center, &notes, NAME, &two);
    add(center, &notes, CFSTR("com.example.other"), &one);
    add(center, &others, NAME, NULL);
    CFNotificationCenterRemoveObserver(center, &notes, NAME, &one);
    post(center, NAME, &one, NULL, false);
    EXPECT(notes.calls == 0 && others.calls == 1);
    post(center, NAME, &two, NULL, false);
    EXPECT(notes.calls == 1);
    // Any name, with this object.
    CFNotificationCenterRemoveObserver(center, &notes, NULL, &one);
    post(center, CFSTR("com.example.other"), &one, NULL, false);
    EXPECT(notes.calls == 1);
    // Any object, with this name.
    CFNotificationCenterRemoveObserver(center, &notes, NAME, NULL);
    post(center, NAME, &two, NULL, false);
    EXPECT(notes.calls == 1 && others.calls == 3);
    CFNotificationCenterRemoveEveryObserver(center, &others);
    // In a callback, also an observer whose turn would have come.
    struct notes first = {.removes = true}, again = {0};
    add(center, &first, NAME, NULL);
    add(center, &again, NAME, NULL);
    add(center, &first, NAME, NULL);
    post(center, NAME, NULL, NULL, false);
    EXPECT(first.calls == 1 && again.calls == 1);
    CFNotificationCenterRemoveEveryObserver(center, &again);
}

static void *postFromThread(void *center) {
    for (int count = 0; count < 10; count++) post(center, NAME, CFSTR("the object"), "from a thread", false);
    return NULL;
}

static void the_distributed_centre_calls_on_the_main_loop(void) {
    CFNotificationCenterRef center = CFNotificationCenterGetDistributedCenter();
    struct notes notes = {0}, any = {0}, same = {0}, other = {0};
    add(center, &notes, NAME, NULL);
    add(center, &any, NULL, NULL);
    CFStringRef equal = CFStringCreateWithCString(NULL, "the object", kCFStringEncodingUTF8);
    add(center, &same, NAME, equal);
    CFRelease(equal);
    add(center, &other, NAME, CFSTR("another"));
    post(center, NAME, CFSTR("the object"), "hello", false);
    EXPECT(notes.calls == 0);
    runUntil(&notes, 1);
    EXPECT(!strcmp(notes.text, "hello") && !strcmp(notes.objectText, "the object") && notes.isMainThread);
    EXPECT(!strcmp(notes.name, "com.example.changed") && notes.center == center);
    EXPECT(any.calls == 1 && same.calls == 1 && other.calls == 0);
    pthread_t thread;
    pthread_create(&thread, NULL, postFromThread, center);
    pthread_join(thread, NULL);
    runUntil(&notes, 11);
    EXPECT(notes.isMainThread && !strcmp(notes.text, "from a thread"));
    post(center, CFSTR("com.example.other"), NULL, NULL, true);
    runUntil(&any, 12);
    EXPECT(notes.calls == 11 && !any.objectText[0] && !any.text[0] && !any.object);
    struct notes *list[] = {&notes, &any, &same, &other};
    for (int at = 0; at < 4; at++) CFNotificationCenterRemoveEveryObserver(center, list[at]);
    post(center, NAME, NULL, NULL, true);
    run(0.05);
    EXPECT(notes.calls == 11 && any.calls == 12);
}

static void darwins_centre_has_names_alone(void) {
    CFNotificationCenterRef center = CFNotificationCenterGetDarwinNotifyCenter();
    struct notes notes = {0}, distributed = {0};
    add(center, &notes, NAME, CFSTR("ignored"));
    add(center, &notes, NULL, NULL); // Not allowed, and ignored.
    add(CFNotificationCenterGetDistributedCenter(), &distributed, NAME, NULL);
    post(center, NAME, CFSTR("another"), "nothing", false);
    runUntil(&notes, 1);
    EXPECT(!notes.object && !notes.text[0] && !strcmp(notes.name, "com.example.changed"));
    CFNotificationCenterRemoveObserver(center, &notes, NAME, NULL);
    post(center, NAME, NULL, NULL, false);
    run(0.05);
    EXPECT(notes.calls == 1 && distributed.calls == 0);
    CFNotificationCenterRemoveEveryObserver(CFNotificationCenterGetDistributedCenter(), &distributed);
}

static void addSuspended(struct notes *notes, CFNotificationSuspensionBehavior behavior) {
    CFNotificationCenterAddObserver(CFNotificationCenterGetDistributedCenter(), notes, note, NAME, NULL, behavior);
}

static void a_suspended_centre_keeps_what_its_observers_want(void) {
    CFNotificationCenterRef center = CFNotificationCenterGetDistributedCenter();
    struct notes dropping = {0}, coalescing = {0}, holding = {0}, immediate = {0}, probe = {0};
    addSuspended(&dropping, CFNotificationSuspensionBehaviorDrop);
    addSuspended(&coalescing, CFNotificationSuspensionBehaviorCoalesce);
    addSuspended(&holding, CFNotificationSuspensionBehaviorHold);
    CFNotificationCenterAddObserver(
        center, &probe, note, CFSTR("com.example.probe"), NULL, CFNotificationSuspensionBehaviorDeliverImmediately);
    EXPECT(!_CFNotificationCenterIsSuspended(center));
    _CFNotificationCenterSetSuspended(center, true);
    EXPECT(_CFNotificationCenterIsSuspended(center));
    post(center, NAME, NULL, "one", false);
    post(center, NAME, NULL, "two", false);
    post(center, NAME, CFSTR("object"), "three", false);
    run(0.05);
    EXPECT(dropping.calls + coalescing.calls + holding.calls == 0);
    _CFNotificationCenterSetSuspended(center, false);
    runUntil(&holding, 3);
    EXPECT(dropping.calls == 0 && coalescing.calls == 2 && !strcmp(coalescing.text, "three"));
    // A notification that comes at once is preceded by those that were held.
    _CFNotificationCenterSetSuspended(center, true);
    post(center, NAME, NULL, "four", false);
    post(center, NAME, NULL, "five", true);
    runUntil(&holding, 5);
    EXPECT(!strcmp(holding.text, "five") && dropping.calls == 1 && coalescing.calls == 4);
    addSuspended(&immediate, CFNotificationSuspensionBehaviorDeliverImmediately);
    post(center, NAME, NULL, "six", false);
    runUntil(&immediate, 1);
    post(center, CFSTR("com.example.probe"), NULL, NULL, false);
    runUntil(&probe, 1);
    EXPECT(dropping.calls == 1 && holding.calls == 6);
    // An observer that has left gets nothing of what was held.
    post(center, NAME, NULL, "seven", false);
    runUntil(&immediate, 2);
    post(center, NAME, NULL, "eight", false);
    struct notes *list[] = {&dropping, &coalescing, &holding, &immediate, &probe};
    for (int at = 0; at < 5; at++) CFNotificationCenterRemoveEveryObserver(center, list[at]);
    int held = holding.calls;
    _CFNotificationCenterSetSuspended(center, false);
    run(0.05);
    EXPECT(holding.calls == held);
}

static void a_suspended_centre_holds_a_limited_number(void) {
    CFNotificationCenterRef center = CFNotificationCenterGetDistributedCenter();
    struct notes holding = {0};
    addSuspended(&holding, CFNotificationSuspensionBehaviorHold);
    _CFNotificationCenterSetSuspended(center, true);
    for (int count = 0; count < 1500; count++) {
        post(center, NAME, NULL, "held", false);
        // Before the queue is full.
        while (count % 100 == 99 && CFRunLoopRunInMode(kCFRunLoopDefaultMode, 0, true) == kCFRunLoopRunHandledSource) {}
    }
    EXPECT(holding.calls == 0);
    _CFNotificationCenterSetSuspended(center, false);
    runUntil(&holding, 1000);
    run(0.05);
    EXPECT(holding.calls == 1000);
    CFNotificationCenterRemoveEveryObserver(center, &holding);
}

static int countFiles(const char *inner) {
    char path[512];
    snprintf(path, sizeof path, "%s/notify%s", getenv("PORTS_DIRECTORY"), inner);
    DIR *folder = opendir(path);
    if (!folder) return -1;
    int count = 0;
    for (struct dirent *entry; (entry = readdir(folder));) count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

static void a_post_that_nobody_observes_leaves_nothing(void) {
    for (int count = 0; count < 100; count++) {
        post(CFNotificationCenterGetDistributedCenter(), NAME, NULL, "nobody", true);
        post(CFNotificationCenterGetDarwinNotifyCenter(), NAME, NULL, NULL, true);
    }
    EXPECT(countFiles("") == -1);
    struct notes notes = {0};
    add(CFNotificationCenterGetDistributedCenter(), &notes, CFSTR("com.example.other"), NULL);
    EXPECT(countFiles("/names") == 1);
    post(CFNotificationCenterGetDistributedCenter(), NAME, NULL, "nobody", true);
    run(0.05);
    EXPECT(notes.calls == 0);
    CFNotificationCenterRemoveEveryObserver(CFNotificationCenterGetDistributedCenter(), &notes);
    EXPECT(countFiles("/names") == 0);
}

static void user_info_is_a_property_list(void) {
    CFNotificationCenterRef center = CFNotificationCenterGetDistributedCenter();
    struct notes notes = {0};
    add(center, &notes, NAME, NULL);
    const void *keys[] = {CFSTR("text")}, *values[] = {CFRunLoopGetMain()};
    CFDictionaryRef info = CFDictionaryCreate(
        NULL, keys, values, 1, &kCFTypeDictionaryKeyCallBacks, &kCFTypeDictionaryValueCallBacks);
    CFNotificationCenterPostNotification(center, NAME, NULL, info, true);
    CFRelease(info);
    run(0.05);
    EXPECT(notes.calls == 0);
    post(center, NAME, NULL, "a list", true);
    runUntil(&notes, 1);
    CFNotificationCenterRemoveEveryObserver(center, &notes);
}

static const char *program;

// Another process, which writes a line for each notification. It has begun to observe when this returns.
static pid_t startObserver(FILE **output) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 1);
        execl(program, program, "observe", "x", NULL);
        _exit(127);
    }
    close(ends[1]);
    *output = fdopen(ends[0], "r");
    char line[64];
    REQUIRE(fgets(line, sizeof line, *output) && !strcmp(line, "ready\n"));
    return child;
}

static void printNote(
    CFNotificationCenterRef center, void *observer, CFStringRef name, const void *object, CFDictionaryRef userInfo) {
    struct notes notes = {0};
    note(center, &notes, name, object, userInfo);
    printf("%s %s\n", notes.objectText, notes.text);
    fflush(stdout);
    if (!strcmp(notes.text, "end")) CFRunLoopStop(CFRunLoopGetMain());
}

static int observe(void) {
    CFNotificationCenterAddObserver(
        CFNotificationCenterGetDistributedCenter(), NULL, printNote, NAME, NULL,
        CFNotificationSuspensionBehaviorDeliverImmediately);
    puts("ready");
    fflush(stdout);
    CFRunLoopRun();
    return 0;
}

// Posts until so many processes are left. The news of an end may come after the next post.
static int postUntilLeft(int processes, const char *text) {
    int posts = 0;
    do {
        post(CFNotificationCenterGetDistributedCenter(), NAME, NULL, text, false);
        posts++;
        if (countFiles("/names") == processes) return posts;
        usleep(1000);
    } while (posts < 10000);
    EXPECT(countFiles("/names") == processes);
    return posts;
}

static void a_post_reaches_other_processes(void) {
    CFNotificationCenterRef center = CFNotificationCenterGetDistributedCenter();
    FILE *outputs[3];
    pid_t children[3];
    char line[64];
    for (int at = 0; at < 3; at++) children[at] = startObserver(&outputs[at]);
    post(center, NAME, CFSTR("object"), "hello", false);
    for (int at = 0; at < 3; at++) EXPECT(fgets(line, sizeof line, outputs[at]) && !strcmp(line, "object hello\n"));
    // One is killed: the others go on, and nothing of it is left.
    kill(children[0], SIGKILL);
    waitpid(children[0], NULL, 0);
    EXPECT(countFiles("/names") == 3);
    int posts = postUntilLeft(2, "again");
    for (int at = 1; at < 3; at++)
        for (int count = 0; count < posts; count++)
            EXPECT(fgets(line, sizeof line, outputs[at]) && !strcmp(line, " again\n"));
    // One is stopped: a post does not wait for it.
    kill(children[1], SIGSTOP);
    for (int count = 0; count < 3000; count++) post(center, NAME, NULL, "more", false);
    for (int count = 0; count < 500; count++) EXPECT(fgets(line, sizeof line, outputs[2]) && !strcmp(line, " more\n"));
    kill(children[1], SIGKILL);
    kill(children[2], SIGTERM);
    for (int at = 1; at < 3; at++) waitpid(children[at], NULL, 0);
    postUntilLeft(0, "nobody");
    for (int at = 0; at < 3; at++) fclose(outputs[at]);
}

static void what_a_process_posts_arrives_after_its_end(void) {
    FILE *output;
    pid_t observer = startObserver(&output);
    pid_t child = fork();
    if (child == 0) {
        execl(program, program, "post", "x", NULL);
        _exit(127);
    }
    int status;
    waitpid(child, &status, 0);
    EXPECT(status == 0);
    char line[64];
    for (int count = 0; count < 20; count++) EXPECT(fgets(line, sizeof line, output) && !strcmp(line, " posted\n"));
    EXPECT(fgets(line, sizeof line, output) && !strcmp(line, " end\n"));
    waitpid(observer, &status, 0);
    EXPECT(status == 0);
    fclose(output);
}

int main(int count, char **words) {
    mainThread = pthread_self();
    program = words[0];
    if (count > 2 && !strcmp(words[1], "observe")) return observe();
    if (count > 2) {
        for (int at = 0; at < 20; at++) post(CFNotificationCenterGetDistributedCenter(), NAME, NULL, "posted", false);
        post(CFNotificationCenterGetDistributedCenter(), NAME, NULL, "end", false);
        return 0;
    }
    struct behaviour all[] = {
        BEHAVIOUR(a_centre_is_a_CFType),
        BEHAVIOUR(the_local_centre_calls_at_once),
        BEHAVIOUR(an_observer_leaves_as_it_has_come),
        BEHAVIOUR(the_distributed_centre_calls_on_the_main_loop),
        BEHAVIOUR(darwins_centre_has_names_alone),
        BEHAVIOUR(a_suspended_centre_keeps_what_its_observers_want),
        BEHAVIOUR(a_suspended_centre_holds_a_limited_number),
        BEHAVIOUR(a_post_that_nobody_observes_leaves_nothing),
        BEHAVIOUR(user_info_is_a_property_list),
        BEHAVIOUR(a_post_reaches_other_processes),
        BEHAVIOUR(what_a_process_posts_arrives_after_its_end),
    };
    return run_behaviours(all, sizeof all / sizeof *all, count, words);
}
