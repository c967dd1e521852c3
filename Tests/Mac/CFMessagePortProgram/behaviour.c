// One behaviour of CFMessagePort a run, as Apple documents it: behaviour NAME. Exits with 0 when it is kept.
#include "behaviours.h"

#include <dirent.h>
#include <pthread.h>
#include <unistd.h>

// What a context and the callbacks have noted.
struct notes {
    int retains, releases, descriptions, calls, invalidations;
    SInt32 id;
    CFMutableDataRef data; // NULL when the last message came without a CFData
    CFMessagePortRef port;
    void *invalidationInfo;
    CFMessagePortRef invalidated;
};

static struct notes *lastInvalidated;
static int invalidations;

static int threadCount(void) {
    DIR *folder = opendir("/proc/self/task");
    int count = 0;
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}

static const void *retain(const void *info) {
    ((struct notes *)info)->retains++;
    return info;
}

static void release(const void *info) { ((struct notes *)info)->releases++; }

static CFStringRef describe(const void *info) {
    ((struct notes *)info)->descriptions++;
    return CFStringCreateWithCString(NULL, "the notes", kCFStringEncodingUTF8);
}

static CFDataRef answer(CFMessagePortRef port, SInt32 id, CFDataRef data, void *info) {
    struct notes *notes = info;
    if (notes) {
        notes->calls++;
        notes->id = id;
        notes->port = port;
        if (notes->data) CFRelease(notes->data);
        notes->data = data ? CFDataCreateMutableCopy(NULL, 0, data) : NULL;
    }
    // The id says what the answer is.
    if (id == 0) return NULL;
    CFMutableDataRef reply = CFDataCreateMutableCopy(NULL, 0, data);
    UInt8 byte = (UInt8)id;
    CFDataAppendBytes(reply, &byte, 1);
    return reply;
}

static void noteInvalidation(CFMessagePortRef port, void *info) {
    struct notes *notes = info;
    invalidations++;
    lastInvalidated = notes;
    if (!notes) return;
    notes->invalidations++;
    notes->invalidationInfo = info;
    notes->invalidated = port;
    EXPECT(!CFMessagePortIsValid(port));
}

static CFMessagePortContext context(struct notes *notes) {
    return (CFMessagePortContext){0, notes, retain, release, describe};
}

static CFDataRef bytes(const char *text) { return CFDataCreate(NULL, (const UInt8 *)text, (CFIndex)strlen(text)); }

static Boolean isEqual(CFDataRef data, const char *text) {
    CFIndex count = (CFIndex)strlen(text);
    return data && CFDataGetLength(data) == count && !memcmp(CFDataGetBytePtr(data), text, (size_t)count);
}

static CFMessagePortRef makeLocal(CFStringRef name, struct notes *notes) {
    CFMessagePortContext made = context(notes);
    Boolean shouldFree = true;
    CFMessagePortRef port = CFMessagePortCreateLocal(NULL, name, answer, notes ? &made : NULL, &shouldFree);
    REQUIRE(port && !shouldFree);
    return port;
}

static CFRunLoopSourceRef schedule(CFMessagePortRef port, CFStringRef mode) {
    CFRunLoopSourceRef source = CFMessagePortCreateRunLoopSource(NULL, port, 0);
    REQUIRE(source);
    CFRunLoopAddSource(CFRunLoopGetCurrent(), source, mode);
    CFRelease(source);
    return source;
}

static CFMessagePortRef makeRemote(CFStringRef name) {
    CFMessagePortRef remote = CFMessagePortCreateRemote(NULL, name);
    REQUIRE(remote);
    return remote;
}

#define NAME CFSTR("com.example.behaviour")
#define MODE CFSTR("com.example.mode")

static void a_port_is_a_CFType(void) {
    CFMessagePortRef port = makeLocal(NAME, NULL), remote = makeRemote(NAME), other = makeLocal(NULL, NULL);
    EXPECT(CFGetTypeID(port) == CFMessagePortGetTypeID() && CFGetTypeID(remote) == CFMessagePortGetTypeID());
    EXPECT(CFMessagePortGetTypeID() != CFStringGetTypeID());
    EXPECT(CFEqual(port, port) && !CFEqual(port, remote) && !CFEqual(port, other) && CFHash(port) == CFHash(port));
    CFStringRef name = CFCopyTypeIDDescription(CFMessagePortGetTypeID());
    EXPECT(CFEqual(name, CFSTR("CFMessagePort")));
    CFRelease(name);
    const void *both[] = {port, remote};
    CFArrayRef array = CFArrayCreate(NULL, both, 2, &kCFTypeArrayCallBacks);
    CFSetRef set = CFSetCreate(NULL, both, 2, &kCFTypeSetCallBacks);
    CFMutableDictionaryRef names =
        CFDictionaryCreateMutable(NULL, 0, &kCFTypeDictionaryKeyCallBacks, &kCFTypeDictionaryValueCallBacks);
    CFDictionarySetValue(names, port, NAME);
    CFDictionarySetValue(names, NAME, remote);
    CFRelease(port);
    CFRelease(remote);
    EXPECT(CFMessagePortIsValid(port) && CFMessagePortIsValid(remote));
    EXPECT(CFArrayContainsValue(array, CFRangeMake(0, 2), port) && CFSetContainsValue(set, remote));
    EXPECT(!CFSetContainsValue(set, other));
    EXPECT(CFEqual(CFDictionaryGetValue(names, port), NAME) && CFDictionaryGetValue(names, NAME) == remote);
    CFIndex count = CFGetRetainCount(port);
    EXPECT(count > 0 && CFRetain(port) == port && CFGetRetainCount(port) == count + 1);
    CFRelease(port);
    EXPECT(CFGetRetainCount(port) == count);
    CFRelease(array);
    CFRelease(set);
    CFRelease(names);
    // The last reference is gone, and with it the port.
    EXPECT(!CFMessagePortCreateRemote(NULL, NAME));
    CFRelease(other);
}

static void the_description_names_the_port(void) {
    struct notes notes = {0};
    CFMessagePortRef port = makeLocal(NAME, &notes), remote = makeRemote(NAME);
    CFStringRef text = CFCopyDescription(port);
    EXPECT(CFStringHasPrefix(text, CFSTR("<CFMessagePort 0x")));
    EXPECT(CFStringFind(text, NAME, 0).length && CFStringFind(text, CFSTR("valid = Yes"), 0).length);
    EXPECT(CFStringFind(text, CFSTR("remote = No"), 0).length && CFStringFind(text, CFSTR("the notes"), 0).length);
    EXPECT(notes.descriptions == 1);
    CFRelease(text);
    CFShow(port);
    CFShow(remote);
    CFMessagePortInvalidate(remote);
    text = CFCopyDescription(remote);
    EXPECT(CFStringFind(text, CFSTR("valid = No, remote = Yes"), 0).length);
    CFRelease(text);
    CFRelease(remote);
    CFRelease(port);
}

static void a_name_is_optional(void) {
    CFMessagePortRef first = makeLocal(NULL, NULL), second = makeLocal(NULL, NULL);
    EXPECT(first != second && !CFMessagePortGetName(first) && CFMessagePortIsValid(first));
    EXPECT(!CFMessagePortIsRemote(first));
    EXPECT(CFMessagePortSetName(first, NAME) && CFEqual(CFMessagePortGetName(first), NAME));
    CFMessagePortRef remote = makeRemote(NAME);
    EXPECT(CFMessagePortIsRemote(remote) && CFEqual(CFMessagePortGetName(remote), NAME));
    CFRelease(remote);
    CFRelease(first);
    CFRelease(second);
}

static void a_name_that_the_process_has_returns_the_port(void) {
    struct notes notes = {0}, ignored = {0};
    CFMessagePortRef port = makeLocal(NAME, &notes);
    EXPECT(notes.retains == 1);
    CFMessagePortContext other = context(&ignored);
    Boolean shouldFree = false;
    CFMutableStringRef name = CFStringCreateMutableCopy(NULL, 0, NAME);
    CFMessagePortRef same = CFMessagePortCreateLocal(NULL, name, NULL, &other, &shouldFree);
    EXPECT(same == port && shouldFree && ignored.retains == 0 && ignored.releases == 0);
    CFStringAppend(name, CFSTR(".changed"));
    EXPECT(CFEqual(CFMessagePortGetName(port), NAME));
    CFRelease(name);
    CFRelease(same);
    EXPECT(CFMessagePortIsValid(port) && notes.releases == 0);
    CFMessagePortInvalidate(port);
    EXPECT(notes.releases == 1);
    // An invalid port has no name any more.
    CFMessagePortRef next = makeLocal(NAME, NULL);
    EXPECT(next != port);
    CFRelease(port);
    EXPECT(CFMessagePortIsValid(next) && notes.releases == 1);
    CFRelease(next);
}

static void a_remote_port_is_one_per_name(void) {
    EXPECT(!CFMessagePortCreateRemote(NULL, CFSTR("com.example.nobody")));
    CFMessagePortRef port = makeLocal(NAME, NULL), remote = makeRemote(NAME), same = makeRemote(NAME);
    EXPECT(remote == same);
    CFMessagePortInvalidate(same);
    EXPECT(!CFMessagePortIsValid(remote) && CFMessagePortIsValid(port));
    CFMessagePortRef next = makeRemote(NAME);
    EXPECT(next != remote && CFMessagePortIsValid(next));
    CFMessagePortInvalidate(port);
    EXPECT(!CFMessagePortIsValid(next));
    EXPECT(!CFMessagePortCreateRemote(NULL, NAME));
    CFRelease(next);
    CFRelease(same);
    CFRelease(remote);
    CFRelease(port);
}

static void a_port_can_be_renamed(void) {
    CFMessagePortRef port = makeLocal(NAME, NULL), other = makeLocal(CFSTR("com.example.other"), NULL);
    EXPECT(!CFMessagePortSetName(port, CFSTR("com.example.other")));
    EXPECT(CFEqual(CFMessagePortGetName(port), NAME));
    EXPECT(!CFMessagePortSetName(port, NULL) && !CFMessagePortSetName(port, CFSTR("")));
    EXPECT(CFMessagePortSetName(port, NAME));
    EXPECT(CFMessagePortSetName(port, CFSTR("com.example.new")));
    EXPECT(CFEqual(CFMessagePortGetName(port), CFSTR("com.example.new")));
    EXPECT(!CFMessagePortCreateRemote(NULL, NAME));
    CFMessagePortRef remote = makeRemote(CFSTR("com.example.new"));
    EXPECT(!CFMessagePortSetName(remote, NAME));
    Boolean shouldFree = false;
    CFMessagePortRef same = CFMessagePortCreateLocal(NULL, CFSTR("com.example.new"), answer, NULL, &shouldFree);
    EXPECT(same == port && shouldFree);
    CFRelease(same);
    CFMessagePortInvalidate(port);
    EXPECT(!CFMessagePortSetName(port, NAME) && CFEqual(CFMessagePortGetName(port), CFSTR("com.example.new")));
    CFRelease(remote);
    CFRelease(other);
    CFRelease(port);
}

static void a_name_is_cut_to_its_largest_size(void) {
    // Two bytes each in UTF-8.
    UniChar letters[200];
    for (int at = 0; at < 200; at++) letters[at] = 0xe9;
    CFStringRef name = CFStringCreateWithCharacters(NULL, letters, 200);
    CFStringRef cut = CFStringCreateWithCharacters(NULL, letters, 127);
    CFMessagePortRef port = makeLocal(name, NULL), remote = makeRemote(name);
    EXPECT(CFEqual(CFMessagePortGetName(port), cut) && CFEqual(CFMessagePortGetName(remote), cut));
    EXPECT(makeRemote(cut) == remote);
    CFRelease(remote);
    CFMessagePortRef other = makeLocal(NULL, NULL);
    EXPECT(!CFMessagePortSetName(other, name));
    CFMessagePortInvalidate(port);
    EXPECT(CFMessagePortSetName(other, name) && CFEqual(CFMessagePortGetName(other), cut));
    // A name with a zero in it is none.
    letters[3] = 0;
    CFStringRef zero = CFStringCreateWithCharacters(NULL, letters, 8);
    EXPECT(!CFMessagePortCreateLocal(NULL, zero, answer, NULL, NULL) && !CFMessagePortCreateRemote(NULL, zero));
    EXPECT(!CFMessagePortSetName(other, zero));
    CFRelease(zero);
    CFRelease(cut);
    CFRelease(name);
    CFRelease(other);
    CFRelease(remote);
    CFRelease(port);
}

static void the_context_is_copied_and_retained(void) {
    struct notes notes = {0};
    CFMessagePortContext given = context(&notes), found = {0};
    CFMessagePortRef port = CFMessagePortCreateLocal(NULL, NULL, answer, &given, NULL);
    memset(&given, 0, sizeof given);
    CFMessagePortGetContext(port, &found);
    EXPECT(found.version == 0 && found.info == &notes && found.retain == retain && found.release == release);
    EXPECT(found.copyDescription == describe && notes.retains == 1 && notes.releases == 0);
    CFMessagePortInvalidate(port);
    CFMessagePortInvalidate(port);
    EXPECT(notes.releases == 1);
    CFMessagePortGetContext(port, &found);
    EXPECT(!found.info);
    CFRelease(port);
    EXPECT(notes.releases == 1);
    // Without functions the info is the program's own.
    CFMessagePortContext plain = {0, &notes, NULL, NULL, NULL};
    port = CFMessagePortCreateLocal(NULL, NULL, answer, &plain, NULL);
    CFMessagePortGetContext(port, &found);
    EXPECT(found.info == &notes);
    CFRelease(port);
    EXPECT(notes.retains == 1 && notes.releases == 1);
    // A port that is not made leaves the info to its caller, who has to free it.
    given = context(&notes);
    Boolean shouldFree = false;
    EXPECT(!CFMessagePortCreateLocal(NULL, CFSTR(""), answer, &given, &shouldFree));
    EXPECT(shouldFree && notes.retains == 1 && notes.releases == 1);
    // The end of the last reference is an invalidation.
    port = CFMessagePortCreateLocal(NULL, NULL, answer, &given, NULL);
    CFMessagePortSetInvalidationCallBack(port, noteInvalidation);
    CFRelease(port);
    EXPECT(notes.retains == 2 && notes.releases == 2 && notes.invalidations == 1);
}

static void an_invalidation_is_reported_once(void) {
    struct notes notes = {0};
    CFMessagePortRef port = makeLocal(NAME, &notes);
    EXPECT(!CFMessagePortGetInvalidationCallBack(port));
    CFMessagePortSetInvalidationCallBack(port, noteInvalidation);
    EXPECT(CFMessagePortGetInvalidationCallBack(port) == noteInvalidation);
    CFRunLoopSourceRef source = CFMessagePortCreateRunLoopSource(NULL, port, 0);
    CFRunLoopAddSource(CFRunLoopGetCurrent(), source, kCFRunLoopDefaultMode);
    CFMessagePortInvalidate(port);
    EXPECT(notes.invalidations == 1 && notes.invalidated == port && notes.invalidationInfo == &notes);
    EXPECT(!CFMessagePortIsValid(port) && !CFRunLoopSourceIsValid(source));
    EXPECT(!CFRunLoopContainsSource(CFRunLoopGetCurrent(), source, kCFRunLoopDefaultMode));
    EXPECT(!CFMessagePortCreateRunLoopSource(NULL, port, 0));
    CFMessagePortInvalidate(port);
    EXPECT(notes.invalidations == 1);
    // A late callback is called at once, without the info.
    CFMessagePortSetInvalidationCallBack(port, noteInvalidation);
    EXPECT(invalidations == 2 && !lastInvalidated && notes.invalidations == 1);
    CFMessagePortSetInvalidationCallBack(port, NULL);
    EXPECT(invalidations == 2);
    CFRelease(source);
    CFRelease(port);
    EXPECT(invalidations == 2 && notes.releases == 1);

    port = makeLocal(NAME, NULL);
    CFMessagePortRef remote = makeRemote(NAME);
    CFMessagePortSetInvalidationCallBack(remote, noteInvalidation);
    CFMessagePortInvalidate(remote);
    EXPECT(invalidations == 3 && !lastInvalidated);
    CFRelease(remote);
    CFRelease(port);
}

static void a_source_is_one_and_keeps_its_port(void) {
    struct notes notes = {0};
    CFMessagePortRef port = makeLocal(NAME, &notes), remote = makeRemote(NAME);
    EXPECT(!CFMessagePortCreateRunLoopSource(NULL, remote, 0));
    CFRunLoopSourceRef source = CFMessagePortCreateRunLoopSource(NULL, port, 7);
    CFRunLoopSourceRef same = CFMessagePortCreateRunLoopSource(NULL, port, 9);
    EXPECT(source == same && CFRunLoopSourceGetOrder(source) == 7);
    CFRunLoopAddSource(CFRunLoopGetCurrent(), source, kCFRunLoopDefaultMode);
    CFRelease(source);
    CFRelease(same);
    CFRelease(port);
    // The run loop keeps the source, and the source the port.
    CFDataRef data = bytes("kept");
    EXPECT(CFMessagePortSendRequest(remote, 5, data, 1, 1, NULL, NULL) == kCFMessagePortSuccess);
    EXPECT(CFRunLoopRunInMode(kCFRunLoopDefaultMode, 10, true) == kCFRunLoopRunHandledSource);
    EXPECT(notes.calls == 1 && notes.id == 5 && isEqual(notes.data, "kept") && notes.port == port);
    EXPECT(notes.retains == notes.releases + 1);
    // The end of the source is not the end of the port, which can have another.
    CFRetain(port);
    CFRunLoopSourceInvalidate(source);
    EXPECT(CFMessagePortIsValid(port) && CFMessagePortIsValid(remote));
    EXPECT(CFMessagePortSendRequest(remote, 6, data, 1, 1, NULL, NULL) == kCFMessagePortSuccess);
    schedule(port, kCFRunLoopDefaultMode);
    EXPECT(CFRunLoopRunInMode(kCFRunLoopDefaultMode, 10, true) == kCFRunLoopRunHandledSource);
    EXPECT(notes.calls == 2 && notes.id == 6);
    source = CFMessagePortCreateRunLoopSource(NULL, port, 0);
    CFRelease(port);
    CFRunLoopSourceInvalidate(source);
    CFRelease(source);
    // Nobody keeps the port any more.
    EXPECT(CFMessagePortSendRequest(remote, 5, data, 1, 1, NULL, NULL) != kCFMessagePortSuccess);
    EXPECT(notes.retains == notes.releases && !CFMessagePortCreateRemote(NULL, NAME));
    CFRelease(notes.data);
    CFRelease(data);
    CFRelease(remote);
}

static void data_may_be_missing_or_empty(void) {
    struct notes notes = {0};
    CFMessagePortRef port = makeLocal(NAME, &notes), remote = makeRemote(NAME);
    schedule(port, kCFRunLoopDefaultMode);
    CFDataRef empty = CFDataCreate(NULL, NULL, 0), reply = empty;
    EXPECT(!CFMessagePortSendRequest(remote, -3, empty, 1, 10, kCFRunLoopDefaultMode, &reply));
    EXPECT(notes.id == -3 && isEqual(notes.data, "") && isEqual(reply, "\xfd"));
    CFRelease(reply);
    reply = empty;
    EXPECT(!CFMessagePortSendRequest(remote, INT32_MAX, NULL, 1, 10, kCFRunLoopDefaultMode, &reply));
    EXPECT(notes.id == INT32_MAX && isEqual(notes.data, "") && isEqual(reply, "\xff"));
    if (reply) CFRelease(reply);
    reply = NULL;
    // A callback that returns NULL replies all the same, with empty data.
    EXPECT(!CFMessagePortSendRequest(remote, 0, NULL, 1, 10, kCFRunLoopDefaultMode, &reply));
    EXPECT(isEqual(reply, "") && notes.calls == 3);
    if (reply) CFRelease(reply);
    // A reply that nobody asks for is no leak.
    EXPECT(!CFMessagePortSendRequest(remote, 9, empty, 1, 10, kCFRunLoopDefaultMode, NULL));
    EXPECT(!CFMessagePortSendRequest(remote, 9, empty, 1, 10, NULL, NULL));
    EXPECT(CFRunLoopRunInMode(kCFRunLoopDefaultMode, 10, true) == kCFRunLoopRunHandledSource && notes.calls == 5);
    CFMessagePortInvalidate(port);
    CFRelease(notes.data);
    CFRelease(empty);
    CFRelease(remote);
    CFRelease(port);
}

static void one_way_messages_come_one_at_a_time_and_in_order(void) {
    struct notes notes = {0};
    CFMessagePortRef port = makeLocal(NAME, &notes), remote = makeRemote(NAME);
    schedule(port, kCFRunLoopDefaultMode);
    for (SInt32 id = 1; id <= 500; id++)
        EXPECT(CFMessagePortSendRequest(remote, id, NULL, 1, 0, NULL, NULL) == kCFMessagePortSuccess);
    for (SInt32 id = 1; id <= 500; id++) {
        EXPECT(CFRunLoopRunInMode(kCFRunLoopDefaultMode, 10, true) == kCFRunLoopRunHandledSource);
        EXPECT(notes.id == id && notes.calls == id);
    }
    EXPECT(CFRunLoopRunInMode(kCFRunLoopDefaultMode, 0, true) == kCFRunLoopRunTimedOut);
    CFMessagePortInvalidate(port);
    CFRelease(notes.data);
    CFRelease(remote);
    CFRelease(port);
}

static void a_request_has_its_results(void) {
    struct notes notes = {0};
    CFMessagePortRef port = makeLocal(NAME, &notes), remote = makeRemote(NAME);
    CFDataRef data = bytes("x"), reply = data;
    CFAbsoluteTime begin = CFAbsoluteTimeGetCurrent();
    EXPECT(CFMessagePortSendRequest(remote, 1, data, 1, 0.1, kCFRunLoopDefaultMode, &reply)
        == kCFMessagePortReceiveTimeout);
    EXPECT(CFMessagePortSendRequest(remote, 1, data, 1, 0.1, MODE, &reply) == kCFMessagePortReceiveTimeout);
    EXPECT(CFMessagePortSendRequest(remote, 1, data, 0, 0, MODE, &reply) == kCFMessagePortReceiveTimeout);
    EXPECT(CFMessagePortSendRequest(remote, 1, data, 1, 0.1, kCFRunLoopCommonModes, &reply)
        == kCFMessagePortReceiveTimeout);
    EXPECT(CFAbsoluteTimeGetCurrent() - begin >= 0.3 && CFAbsoluteTimeGetCurrent() - begin < 20);
    SInt32 result = kCFMessagePortSuccess;
    for (int count = 0; count < 100000 && !result; count++)
        result = CFMessagePortSendRequest(remote, 1, data, 0, 0, NULL, NULL);
    EXPECT(result == kCFMessagePortSendTimeout);
    CFMessagePortInvalidate(remote);
    EXPECT(CFMessagePortSendRequest(remote, 1, data, 1, 1, MODE, &reply) == kCFMessagePortIsInvalid);
    EXPECT(CFMessagePortSendRequest(remote, 1, data, 1, 1, NULL, NULL) == kCFMessagePortIsInvalid);
    EXPECT(reply == data);
    CFRelease(remote);
    CFRelease(port);
    CFRelease(data);
    EXPECT(notes.calls == 0);
}

static void a_request_without_time_runs_the_mode_once(void) {
    struct notes notes = {0};
    CFMessagePortRef port = makeLocal(NAME, &notes), remote = makeRemote(NAME);
    schedule(port, MODE);
    CFDataRef reply = NULL;
    for (int count = 1; count <= 100; count++) {
        reply = NULL;
        // The port is served, and its reply may be there already.
        SInt32 result = CFMessagePortSendRequest(remote, 0, NULL, 1, 0, MODE, &reply);
        EXPECT(notes.calls <= count && result == (reply ? kCFMessagePortSuccess : kCFMessagePortReceiveTimeout));
        if (reply) CFRelease(reply);
    }
    // A run may be over before the loop knows of the request.
    EXPECT(notes.calls > 50);
    // The next request gets its own reply, not a late one.
    EXPECT(CFMessagePortSendRequest(remote, 7, NULL, 1, 10, MODE, &reply) == kCFMessagePortSuccess);
    EXPECT(isEqual(reply, "\x07"));
    if (reply) CFRelease(reply);
    if (notes.data) CFRelease(notes.data);
    CFMessagePortInvalidate(port);
    CFRelease(remote);
    CFRelease(port);
}

static CFDataRef invalidateItself(CFMessagePortRef port, SInt32 id, CFDataRef data, void *info) {
    struct notes *notes = info;
    notes->calls++;
    int before = notes->releases;
    CFMessagePortInvalidate(port);
    // The callout keeps the info.
    EXPECT(notes->releases == before + 1 && notes->retains > notes->releases);
    return id ? (CFDataRef)CFRetain(data) : NULL;
}

static void a_callback_may_invalidate_its_port(void) {
    for (SInt32 id = 0; id < 20; id++) {
        struct notes notes = {0};
        CFMessagePortContext made = context(&notes);
        CFMessagePortRef port = CFMessagePortCreateLocal(NULL, NAME, invalidateItself, &made, NULL);
        CFMessagePortRef remote = makeRemote(NAME);
        schedule(port, kCFRunLoopDefaultMode);
        CFMessagePortSetInvalidationCallBack(port, noteInvalidation);
        CFDataRef data = bytes("x"), reply = NULL;
        CFRelease(port);
        SInt32 result = CFMessagePortSendRequest(remote, id, data, 1, 10, kCFRunLoopDefaultMode, &reply);
        EXPECT(result == kCFMessagePortSuccess && isEqual(reply, id ? "x" : ""));
        EXPECT(notes.calls == 1 && notes.invalidations == 1 && notes.retains == notes.releases);
        EXPECT(!CFMessagePortIsValid(remote));
        if (reply) CFRelease(reply);
        CFRelease(remote);
        CFRelease(data);
    }
}

static void endOther(CFRunLoopTimerRef timer, void *info) { CFMessagePortInvalidate((CFMessagePortRef)info); }

static void invalidateSoon(CFMessagePortRef port, CFStringRef mode) {
    CFRunLoopTimerContext made = {0, (void *)port, CFRetain, CFRelease, NULL};
    CFRunLoopTimerRef timer = CFRunLoopTimerCreate(NULL, CFAbsoluteTimeGetCurrent() + 0.05, 0, 0, 0, endOther, &made);
    CFRunLoopAddTimer(CFRunLoopGetCurrent(), timer, mode);
    CFRelease(timer);
}

static void a_port_that_ends_ends_its_requests(void) {
    for (int isLocal = 0; isLocal < 2; isLocal++) {
        CFMessagePortRef port = makeLocal(NAME, NULL), remote = makeRemote(NAME);
        CFDataRef reply = NULL;
        invalidateSoon(isLocal ? port : remote, MODE);
        EXPECT(CFMessagePortSendRequest(remote, 1, NULL, 1, 30, MODE, &reply) == kCFMessagePortBecameInvalidError);
        EXPECT(!reply && !CFMessagePortIsValid(remote));
        CFRelease(remote);
        CFRelease(port);
    }
}

enum { steps = 5, objects = 3 };

// The n-th of the orders of so many.
static void makeOrder(int *order, int count, int n) {
    for (int at = 0; at < count; at++) order[at] = at;
    for (int at = 0; at < count; at++) {
        int left = count - at, other = at + n % left, kept = order[at];
        order[at] = order[other];
        order[other] = kept;
        n /= left;
    }
}

static void a_port_may_end_in_any_order(void) {
    for (int n = 0; n < 120; n++) {
        struct notes notes = {0};
        CFMessagePortRef port = makeLocal(NAME, &notes), remote = makeRemote(NAME);
        CFMessagePortSetInvalidationCallBack(port, noteInvalidation);
        CFRunLoopSourceRef source = CFMessagePortCreateRunLoopSource(NULL, port, 0);
        CFRunLoopAddSource(CFRunLoopGetCurrent(), source, MODE);
        CFMessagePortSendRequest(remote, 1, NULL, 1, 0, NULL, NULL);
        int order[steps];
        makeOrder(order, steps, n);
        for (int at = 0; at < steps; at++) {
            switch (order[at]) {
            case 0: CFMessagePortInvalidate(port); break;
            case 1: CFMessagePortInvalidate(remote); break;
            case 2: CFRunLoopSourceInvalidate(source); break;
            case 3: CFRunLoopRemoveSource(CFRunLoopGetCurrent(), source, MODE); break;
            default: CFMessagePortSendRequest(remote, 1, NULL, 0, 0, NULL, NULL);
            }
            CFRunLoopRunInMode(MODE, 0, true);
        }
        EXPECT(!CFMessagePortIsValid(port) && !CFMessagePortIsValid(remote) && !CFRunLoopSourceIsValid(source));
        CFTypeRef all[objects] = {port, remote, source};
        makeOrder(order, objects, n % 6);
        for (int at = 0; at < objects; at++) CFRelease(all[order[at]]);
        EXPECT(notes.invalidations == 1 && notes.retains == notes.releases && notes.calls <= 2);
        if (notes.data) CFRelease(notes.data);
        REQUIRE(!CFMessagePortCreateRemote(NULL, NAME));
    }
}

static CFMessagePortRef second;

static CFDataRef askSecond(CFMessagePortRef port, SInt32 id, CFDataRef data, void *info) {
    CFDataRef reply = NULL;
    SInt32 result = CFMessagePortSendRequest(second, id, data, 1, 10, MODE, &reply);
    EXPECT(result == kCFMessagePortSuccess);
    return reply;
}

static void requests_nest(void) {
    struct notes notes = {0};
    CFMessagePortRef outer = CFMessagePortCreateLocal(NULL, NAME, askSecond, NULL, NULL);
    CFMessagePortRef inner = makeLocal(CFSTR("com.example.inner"), &notes);
    schedule(outer, kCFRunLoopDefaultMode);
    schedule(inner, MODE);
    CFMessagePortRef remote = makeRemote(NAME);
    second = makeRemote(CFSTR("com.example.inner"));
    CFDataRef data = bytes("deep"), reply = NULL;
    for (SInt32 id = 'a'; id <= 'z'; id++) {
        EXPECT(!CFMessagePortSendRequest(remote, id, data, 1, 10, kCFRunLoopDefaultMode, &reply));
        EXPECT(reply && CFDataGetLength(reply) == 5 && CFDataGetBytePtr(reply)[4] == id);
        CFRelease(reply);
    }
    EXPECT(notes.calls == 26);
    // The default mode's port is not served in the other mode.
    EXPECT(CFMessagePortSendRequest(remote, 1, data, 1, 0.05, MODE, &reply) == kCFMessagePortReceiveTimeout);
    CFMessagePortInvalidate(outer);
    CFMessagePortInvalidate(inner);
    CFRelease(notes.data);
    CFRelease(data);
    CFRelease(remote);
    CFRelease(second);
    CFRelease(outer);
    CFRelease(inner);
}

static CFDataRef askItself(CFMessagePortRef port, SInt32 id, CFDataRef data, void *info) {
    int *calls = info;
    *calls += 1;
    if (id == 0) return CFDataCreateCopy(NULL, data);
    CFDataRef reply = NULL;
    CFMessagePortRef remote = makeRemote(NAME);
    EXPECT(!CFMessagePortSendRequest(remote, id - 1, data, 1, 10, kCFRunLoopDefaultMode, &reply));
    CFRelease(remote);
    return reply;
}

static void a_callback_may_ask_its_own_port(void) {
    int calls = 0;
    CFMessagePortContext made = {0, &calls, NULL, NULL, NULL};
    CFMessagePortRef port = CFMessagePortCreateLocal(NULL, NAME, askItself, &made, NULL), remote = makeRemote(NAME);
    schedule(port, kCFRunLoopCommonModes);
    CFDataRef data = bytes("deep"), reply = NULL;
    EXPECT(!CFMessagePortSendRequest(remote, 20, data, 1, 30, kCFRunLoopDefaultMode, &reply));
    EXPECT(calls == 21 && isEqual(reply, "deep"));
    CFMessagePortInvalidate(port);
    if (reply) CFRelease(reply);
    CFRelease(data);
    CFRelease(remote);
    CFRelease(port);
}

static void runNested(CFRunLoopTimerRef timer, void *info) { CFRunLoopRunInMode(kCFRunLoopDefaultMode, 0.3, false); }

static void a_run_nested_in_a_timer_does_not_keep_the_reply(void) {
    CFMessagePortRef port = makeLocal(NAME, NULL), remote = makeRemote(NAME);
    schedule(port, kCFRunLoopDefaultMode);
    CFRunLoopTimerRef timer = CFRunLoopTimerCreate(NULL, CFAbsoluteTimeGetCurrent(), 0, 0, 0, runNested, NULL);
    CFRunLoopAddTimer(CFRunLoopGetCurrent(), timer, kCFRunLoopDefaultMode);
    CFDataRef data = bytes("x"), reply = NULL;
    CFAbsoluteTime begin = CFAbsoluteTimeGetCurrent();
    EXPECT(!CFMessagePortSendRequest(remote, 'y', data, 1, 1e9, kCFRunLoopDefaultMode, &reply));
    EXPECT(isEqual(reply, "xy") && CFAbsoluteTimeGetCurrent() - begin < 20);
    if (reply) CFRelease(reply);
    CFMessagePortInvalidate(port);
    CFRelease(timer);
    CFRelease(data);
    CFRelease(remote);
    CFRelease(port);
}

static void large_data_goes_both_ways(void) {
    CFMessagePortRef port = makeLocal(NAME, NULL), remote = makeRemote(NAME);
    schedule(port, kCFRunLoopDefaultMode);
    CFMutableDataRef data = CFDataCreateMutable(NULL, 0);
    // The reply has one byte more.
    CFIndex most = 0x60000000, length = getenv("SOAK") ? most - 1 : 65 << 20;
    CFDataSetLength(data, length);
    for (CFIndex at = 0; at < length; at += 4097) CFDataGetMutableBytePtr(data)[at] = (UInt8)at;
    CFDataRef reply = NULL;
    EXPECT(!CFMessagePortSendRequest(remote, 42, data, 60, 60, kCFRunLoopDefaultMode, &reply));
    REQUIRE(reply);
    UInt8 last = 42;
    CFDataAppendBytes(data, &last, 1);
    EXPECT(CFEqual(reply, data));
    CFRelease(reply);
    if (length == most - 1) {
        // A request may be as large, and none larger. The asker gets no bytes of a larger reply.
        EXPECT(!CFMessagePortSendRequest(remote, 0, data, 60, 60, kCFRunLoopDefaultMode, &reply));
        EXPECT(isEqual(reply, ""));
        CFRelease(reply);
        EXPECT(!CFMessagePortSendRequest(remote, 42, data, 60, 60, kCFRunLoopDefaultMode, &reply));
        EXPECT(isEqual(reply, ""));
        CFRelease(reply);
        CFDataAppendBytes(data, &last, 1);
        EXPECT(CFMessagePortSendRequest(remote, 42, data, 60, 60, kCFRunLoopDefaultMode, &reply)
            == kCFMessagePortTransportError);
    }
    CFRelease(data);
    CFMessagePortInvalidate(port);
    CFRelease(remote);
    CFRelease(port);
}

static void requests_leave_no_threads_behind(void) {
    struct notes notes = {0};
    CFMessagePortRef port = makeLocal(NAME, &notes), remote = makeRemote(NAME);
    schedule(port, kCFRunLoopDefaultMode);
    for (int count = 0; count < 2000; count++)
        EXPECT(!CFMessagePortSendRequest(remote, 1, NULL, 10, 10, kCFRunLoopDefaultMode, NULL));
    EXPECT(notes.calls == 2000 && threadCount() < 40);
    CFMessagePortInvalidate(port);
    CFRelease(notes.data);
    CFRelease(remote);
    CFRelease(port);
}

static char queueKey;

static CFDataRef answerOnQueue(CFMessagePortRef port, SInt32 id, CFDataRef data, void *info) {
    EXPECT(dispatch_get_specific(&queueKey) == info);
    return CFDataCreateCopy(NULL, data);
}

static void a_dispatch_queue_calls_the_callback(void) {
    dispatch_queue_t queue = dispatch_queue_create("com.example.queue", NULL);
    dispatch_queue_set_specific(queue, &queueKey, &queueKey, NULL);
    CFMessagePortContext made = {0, &queueKey, NULL, NULL, NULL};
    CFMessagePortRef port = CFMessagePortCreateLocal(NULL, NAME, answerOnQueue, &made, NULL), remote = makeRemote(NAME);
    CFMessagePortSetDispatchQueue(port, queue);
    EXPECT(!CFMessagePortCreateRunLoopSource(NULL, port, 0));
    CFMessagePortRef kept = port;
    CFRelease(port); // The queue keeps it.
    CFDataRef data = bytes("queue"), reply = NULL;
    for (int count = 0; count < 100; count++) {
        EXPECT(!CFMessagePortSendRequest(remote, 1, data, 1, 10, MODE, &reply) && reply && CFEqual(reply, data));
        CFRelease(reply);
    }
    CFRetain(kept);
    CFMessagePortSetDispatchQueue(kept, NULL);
    EXPECT(CFMessagePortSendRequest(remote, 1, data, 1, 0.1, MODE, &reply) == kCFMessagePortReceiveTimeout);
    EXPECT(CFMessagePortIsValid(kept));
    // What has a source gets no queue, and a remote port neither.
    made.info = NULL;
    CFRunLoopSourceRef source = schedule(kept, kCFRunLoopDefaultMode);
    CFMessagePortSetDispatchQueue(kept, queue);
    CFMessagePortSetDispatchQueue(remote, queue);
    CFRunLoopRemoveSource(CFRunLoopGetCurrent(), source, kCFRunLoopDefaultMode);
    CFMessagePortInvalidate(kept);
    CFMessagePortSetDispatchQueue(kept, queue);
    CFRelease(kept);
    CFRelease(remote);
    CFRelease(data);
    dispatch_release(queue);
}

static void *askOften(void *failed) {
    CFMessagePortRef remote = CFMessagePortCreateRemote(NULL, NAME);
    CFDataRef data = bytes("thread");
    for (int count = 0; count < 500; count++) {
        CFDataRef reply = NULL;
        if (CFMessagePortSendRequest(remote, '!', data, 10, 30, kCFRunLoopDefaultMode, &reply)) *(int *)failed += 1;
        else if (!isEqual(reply, "thread!")) *(int *)failed += 1;
        if (reply) CFRelease(reply);
    }
    CFRelease(data);
    CFRelease(remote);
    return NULL;
}

static void threads_share_a_remote_port(void) {
    struct notes notes = {0};
    CFMessagePortRef port = makeLocal(NAME, &notes);
    schedule(port, kCFRunLoopDefaultMode);
    pthread_t threads[4];
    int failed[4] = {0};
    for (int at = 0; at < 4; at++) pthread_create(&threads[at], NULL, askOften, &failed[at]);
    while (notes.calls < 2000)
        if (CFRunLoopRunInMode(kCFRunLoopDefaultMode, 30, true) != kCFRunLoopRunHandledSource) break;
    for (int at = 0; at < 4; at++) {
        pthread_join(threads[at], NULL);
        EXPECT(failed[at] == 0);
    }
    EXPECT(notes.calls == 2000);
    CFMessagePortInvalidate(port);
    CFRelease(notes.data);
    CFRelease(port);
}

#include "processes.h"

int main(int count, char **words) {
    if (count > 2) return run_as_other(words[1], words[2], words[0]);
    struct behaviour all[] = {
        BEHAVIOUR(a_port_is_a_CFType),
        BEHAVIOUR(the_description_names_the_port),
        BEHAVIOUR(a_name_is_optional),
        BEHAVIOUR(a_name_that_the_process_has_returns_the_port),
        BEHAVIOUR(a_remote_port_is_one_per_name),
        BEHAVIOUR(a_port_can_be_renamed),
        BEHAVIOUR(the_context_is_copied_and_retained),
        BEHAVIOUR(an_invalidation_is_reported_once),
        BEHAVIOUR(a_source_is_one_and_keeps_its_port),
        BEHAVIOUR(data_may_be_missing_or_empty),
        BEHAVIOUR(one_way_messages_come_one_at_a_time_and_in_order),
        BEHAVIOUR(a_request_has_its_results),
        BEHAVIOUR(a_request_without_time_runs_the_mode_once),
        BEHAVIOUR(a_name_is_cut_to_its_largest_size),
        BEHAVIOUR(a_callback_may_invalidate_its_port),
        BEHAVIOUR(a_port_that_ends_ends_its_requests),
        BEHAVIOUR(a_port_may_end_in_any_order),
        BEHAVIOUR(requests_nest),
        BEHAVIOUR(a_callback_may_ask_its_own_port),
        BEHAVIOUR(a_run_nested_in_a_timer_does_not_keep_the_reply),
        BEHAVIOUR(requests_leave_no_threads_behind),
        BEHAVIOUR(large_data_goes_both_ways),
        BEHAVIOUR(a_dispatch_queue_calls_the_callback),
        BEHAVIOUR(threads_share_a_remote_port),
    };
    return run_behaviours(all, sizeof all / sizeof *all, count, words);
}
