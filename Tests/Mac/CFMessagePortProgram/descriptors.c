// One behaviour of CFFileDescriptor a run, as Apple documents it.
#include "behaviours.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static const CFOptionFlags reading = kCFFileDescriptorReadCallBack, writing = kCFFileDescriptorWriteCallBack;

struct notes {
    int calls, retains, releases;
    CFOptionFlags types;
    CFFileDescriptorRef file;
    Boolean enablesAgain, invalidates;
};

static void *retain(void *info) {
    ((struct notes *)info)->retains++;
    return info;
}

static void release(void *info) { ((struct notes *)info)->releases++; }

static CFStringRef describe(void *info) { return CFStringCreateWithCString(NULL, "the notes", kCFStringEncodingUTF8); }

static void note(CFFileDescriptorRef file, CFOptionFlags types, void *info) {
    struct notes *notes = info;
    notes->calls++;
    notes->types = types;
    notes->file = file;
    if (notes->enablesAgain) CFFileDescriptorEnableCallBacks(file, types);
    if (notes->invalidates) CFFileDescriptorInvalidate(file);
}

static CFFileDescriptorRef make(int descriptor, Boolean closes, struct notes *notes) {
    CFFileDescriptorContext context = {0, notes, retain, release, describe};
    CFFileDescriptorRef file = CFFileDescriptorCreate(NULL, descriptor, closes, note, &context);
    REQUIRE(file);
    return file;
}

static CFRunLoopSourceRef schedule(CFFileDescriptorRef file) {
    CFRunLoopSourceRef source = CFFileDescriptorCreateRunLoopSource(NULL, file, 0);
    REQUIRE(source);
    CFRunLoopAddSource(CFRunLoopGetCurrent(), source, kCFRunLoopDefaultMode);
    CFRelease(source);
    return source;
}

static SInt32 run(CFTimeInterval seconds) { return CFRunLoopRunInMode(kCFRunLoopDefaultMode, seconds, true); }

// A thread of libdispatch may open another descriptor of a number that was closed.
static Boolean isFile(int descriptor, const struct stat *file) {
    struct stat found;
    return !fstat(descriptor, &found) && found.st_dev == file->st_dev && found.st_ino == file->st_ino;
}

// As the other end of a pipe or a pair sees it.
static Boolean hasReader(int other) {
    struct pollfd end = {other, 0, 0};
    poll(&end, 1, 0);
    return !(end.revents & (POLLERR | POLLHUP));
}

static void a_descriptor_is_a_CFType(void) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    struct notes notes = {0};
    CFFileDescriptorRef file = make(ends[0], false, &notes);
    EXPECT(CFGetTypeID(file) == CFFileDescriptorGetTypeID());
    EXPECT(CFFileDescriptorGetTypeID() != CFMessagePortGetTypeID());
    EXPECT(CFFileDescriptorIsValid(file) && CFFileDescriptorGetNativeDescriptor(file) == ends[0]);
    CFFileDescriptorContext context;
    CFFileDescriptorGetContext(file, &context);
    EXPECT(context.info == &notes && context.retain == retain && context.release == release);
    CFStringRef text = CFCopyDescription(file);
    EXPECT(CFStringFind(text, CFSTR("CFFileDescriptor"), 0).location != kCFNotFound);
    EXPECT(CFStringFind(text, CFSTR("the notes"), 0).location != kCFNotFound);
    CFRelease(text);
    EXPECT(CFGetRetainCount(file) == 1);
    CFRetain(file);
    CFRelease(file);
    EXPECT(notes.retains == 1 && notes.releases == 0);
    CFRelease(file);
    EXPECT(notes.releases == 1);
    EXPECT(hasReader(ends[1]));
}

static void a_callback_comes_once(void) {
    int ends[2];
    REQUIRE(pipe(ends) == 0 && write(ends[1], "ab", 2) == 2);
    struct notes notes = {0};
    CFFileDescriptorRef file = make(ends[0], false, &notes);
    schedule(file);
    EXPECT(run(0.05) == kCFRunLoopRunTimedOut); // Nothing is enabled.
    CFFileDescriptorEnableCallBacks(file, reading);
    EXPECT(run(10) == kCFRunLoopRunHandledSource);
    EXPECT(notes.calls == 1 && notes.types == reading && notes.file == file);
    EXPECT(run(0.05) == kCFRunLoopRunTimedOut);
    char byte;
    EXPECT(read(ends[0], &byte, 1) == 1 && byte == 'a');
    CFFileDescriptorEnableCallBacks(file, reading);
    EXPECT(run(10) == kCFRunLoopRunHandledSource);
    EXPECT(notes.calls == 2);
    notes.enablesAgain = true;
    for (int call = 3; call < 10; call++) {
        CFFileDescriptorEnableCallBacks(file, reading);
        EXPECT(run(10) == kCFRunLoopRunHandledSource);
        EXPECT(notes.calls == call);
    }
    CFFileDescriptorDisableCallBacks(file, reading);
    EXPECT(run(0.05) == kCFRunLoopRunTimedOut);
    CFFileDescriptorInvalidate(file);
    CFRelease(file);
}

static void both_directions_are_enabled_apart(void) {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    struct notes notes = {0};
    CFFileDescriptorRef file = make(ends[0], false, &notes);
    // Before there is a source.
    CFFileDescriptorEnableCallBacks(file, writing | reading);
    schedule(file);
    EXPECT(run(10) == kCFRunLoopRunHandledSource);
    EXPECT(notes.types == writing);
    // Reading is still enabled.
    EXPECT(run(0.05) == kCFRunLoopRunTimedOut);
    EXPECT(write(ends[1], "x", 1) == 1);
    EXPECT(run(10) == kCFRunLoopRunHandledSource);
    EXPECT(notes.types == reading && notes.calls == 2);
    CFFileDescriptorEnableCallBacks(file, writing | reading);
    CFFileDescriptorDisableCallBacks(file, writing);
    EXPECT(run(10) == kCFRunLoopRunHandledSource);
    EXPECT(notes.types == reading && notes.calls == 3);
    CFFileDescriptorEnableCallBacks(file, writing | reading);
    EXPECT(run(10) == kCFRunLoopRunHandledSource);
    EXPECT(notes.types == (writing | reading) && notes.calls == 4);
    CFRelease(file);
}

static void the_end_of_a_stream_is_readable_once(void) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    struct notes notes = {0};
    CFFileDescriptorRef file = make(ends[0], true, &notes);
    schedule(file);
    CFFileDescriptorEnableCallBacks(file, reading);
    EXPECT(run(0.05) == kCFRunLoopRunTimedOut);
    close(ends[1]);
    EXPECT(run(10) == kCFRunLoopRunHandledSource);
    EXPECT(notes.calls == 1 && notes.types == reading);
    // The end does not keep the loop awake.
    EXPECT(run(0.05) == kCFRunLoopRunTimedOut);
    EXPECT(notes.calls == 1);
    CFFileDescriptorInvalidate(file);
    CFRelease(file);
}

static void an_invalidation_closes_if_asked_to(void) {
    for (int closes = 0; closes < 2; closes++) {
        int ends[2];
        REQUIRE(pipe(ends) == 0 && write(ends[1], "a", 1) == 1);
        struct notes notes = {0};
        CFFileDescriptorRef file = make(ends[0], closes, &notes);
        CFRunLoopSourceRef source = schedule(file);
        CFRetain(source);
        CFFileDescriptorEnableCallBacks(file, reading);
        CFFileDescriptorInvalidate(file);
        EXPECT(!CFFileDescriptorIsValid(file) && !CFRunLoopSourceIsValid(source));
        EXPECT(CFFileDescriptorGetNativeDescriptor(file) == -1);
        EXPECT(hasReader(ends[1]) == !closes);
        EXPECT(notes.retains == 1 && notes.releases == 1);
        EXPECT(!CFFileDescriptorCreateRunLoopSource(NULL, file, 0));
        CFFileDescriptorEnableCallBacks(file, reading);
        EXPECT(run(0.02) != kCFRunLoopRunHandledSource);
        EXPECT(notes.calls == 0);
        CFFileDescriptorInvalidate(file);
        CFRelease(source);
        CFRelease(file);
        EXPECT(notes.releases == 1);
    }
}

static void the_last_release_invalidates(void) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    struct notes notes = {0};
    CFFileDescriptorRef file = make(ends[0], true, &notes);
    CFRunLoopSourceRef source = schedule(file);
    CFFileDescriptorEnableCallBacks(file, reading);
    // The source keeps it, and the loop keeps the source.
    CFRelease(file);
    EXPECT(write(ends[1], "a", 1) == 1);
    EXPECT(run(10) == kCFRunLoopRunHandledSource);
    EXPECT(notes.calls == 1 && hasReader(ends[1]));
    CFRunLoopRemoveSource(CFRunLoopGetCurrent(), source, kCFRunLoopDefaultMode);
    EXPECT(!hasReader(ends[1]) && notes.releases == notes.retains);
}

static void a_callback_may_invalidate(void) {
    int ends[2];
    REQUIRE(pipe(ends) == 0 && write(ends[1], "a", 1) == 1);
    struct notes notes = {.invalidates = true};
    CFFileDescriptorRef file = make(ends[0], true, &notes);
    schedule(file);
    CFFileDescriptorEnableCallBacks(file, reading);
    CFRelease(file);
    EXPECT(run(10) == kCFRunLoopRunHandledSource);
    EXPECT(notes.calls == 1 && !hasReader(ends[1]) && notes.releases == notes.retains);
    EXPECT(run(0) != kCFRunLoopRunHandledSource);
}

static void a_source_is_one_until_it_is_invalid(void) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    struct notes notes = {0};
    CFFileDescriptorRef file = make(ends[0], false, &notes);
    CFRunLoopSourceRef source = CFFileDescriptorCreateRunLoopSource(NULL, file, 3);
    CFRunLoopSourceRef same = CFFileDescriptorCreateRunLoopSource(NULL, file, 4);
    EXPECT(source == same && CFRunLoopSourceGetOrder(source) == 3);
    CFRunLoopSourceInvalidate(source);
    CFRunLoopSourceRef other = CFFileDescriptorCreateRunLoopSource(NULL, file, 4);
    EXPECT(other && other != source && CFRunLoopSourceIsValid(other));
    CFRelease(source);
    CFRelease(same);
    CFRelease(other);
    CFRelease(file);
}

static void a_regular_file_is_always_ready(void) {
    int descriptor = open("/proc/self/exe", O_RDONLY);
    struct notes notes = {0};
    CFFileDescriptorRef file = make(descriptor, true, &notes);
    schedule(file);
    for (int call = 1; call < 4; call++) {
        CFFileDescriptorEnableCallBacks(file, reading);
        EXPECT(run(10) == kCFRunLoopRunHandledSource);
        EXPECT(notes.calls == call);
        EXPECT(run(0.02) == kCFRunLoopRunTimedOut);
    }
    struct stat regular;
    REQUIRE(!fstat(descriptor, &regular));
    CFFileDescriptorInvalidate(file);
    EXPECT(!isFile(descriptor, &regular));
    CFRelease(file);
}

static void only_an_open_descriptor_will_do(void) {
    EXPECT(!CFFileDescriptorCreate(NULL, -1, false, note, NULL));
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    close(ends[0]);
    struct notes notes = {0};
    CFFileDescriptorContext context = {0, &notes, retain, release, NULL};
    EXPECT(!CFFileDescriptorCreate(NULL, ends[0], true, note, &context));
    EXPECT(notes.retains == notes.releases);
    CFFileDescriptorRef plain = CFFileDescriptorCreate(NULL, ends[1], true, NULL, NULL);
    REQUIRE(plain);
    schedule(plain);
    CFFileDescriptorEnableCallBacks(plain, writing);
    EXPECT(run(10) == kCFRunLoopRunHandledSource);
    struct stat end;
    REQUIRE(!fstat(ends[1], &end));
    CFFileDescriptorInvalidate(plain);
    EXPECT(!isFile(ends[1], &end));
    CFRelease(plain);
}

int main(int count, char **words) {
    struct behaviour all[] = {
        BEHAVIOUR(a_descriptor_is_a_CFType),
        BEHAVIOUR(a_callback_comes_once),
        BEHAVIOUR(both_directions_are_enabled_apart),
        BEHAVIOUR(the_end_of_a_stream_is_readable_once),
        BEHAVIOUR(an_invalidation_closes_if_asked_to),
        BEHAVIOUR(the_last_release_invalidates),
        BEHAVIOUR(a_callback_may_invalidate),
        BEHAVIOUR(a_source_is_one_until_it_is_invalid),
        BEHAVIOUR(a_regular_file_is_always_ready),
        BEHAVIOUR(only_an_open_descriptor_will_do),
    };
    return run_behaviours(all, sizeof all / sizeof *all, count, words);
}
