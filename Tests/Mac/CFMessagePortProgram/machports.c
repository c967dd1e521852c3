// One behaviour of CFMachPort a run, as Apple's documentation and sources have it.
#include "behaviours.h"

#include <mach/mach.h>
#include <mach/mach_time.h>
#include <pthread.h>
#include <servers/bootstrap.h>
#include <unistd.h>

struct notes {
    int calls, retains, releases, invalidations;
    CFIndex size;
    mach_msg_header_t header;
    char bytes[64];
    CFMachPortRef port;
    Boolean invalidates, answers;
};

static const void *retain(const void *info) {
    ((struct notes *)info)->retains++;
    return info;
}

static void release(const void *info) { ((struct notes *)info)->releases++; }

static CFStringRef describe(const void *info) {
    return CFStringCreateWithCString(NULL, "the notes", kCFStringEncodingUTF8);
}

static mach_msg_return_t sendTo(mach_port_t port, mach_port_t replyTo, mach_msg_id_t id, const char *text) {
    struct {
        mach_msg_header_t header;
        char bytes[60];
    } message = {0};
    message.header.msgh_bits = MACH_MSGH_BITS(MACH_MSG_TYPE_COPY_SEND, replyTo ? MACH_MSG_TYPE_MAKE_SEND : 0);
    message.header.msgh_remote_port = port;
    message.header.msgh_local_port = replyTo;
    message.header.msgh_id = id;
    strcpy(message.bytes, text);
    message.header.msgh_size = sizeof message.header + (mach_msg_size_t)strlen(text);
    return mach_msg(
        &message.header, MACH_SEND_MSG | MACH_SEND_TIMEOUT, message.header.msgh_size, 0, MACH_PORT_NULL, 10000,
        MACH_PORT_NULL);
}

static void note(CFMachPortRef port, void *message, CFIndex size, void *info) {
    struct notes *notes = info;
    notes->calls++;
    notes->port = port;
    notes->size = size;
    memcpy(&notes->header, message, sizeof notes->header);
    memcpy(notes->bytes, (char *)message + sizeof notes->header, (size_t)size - sizeof notes->header);
    if (notes->answers) {
        EXPECT(!sendTo(notes->header.msgh_remote_port, 0, notes->header.msgh_id + 100, "answer"));
        EXPECT(!mach_port_deallocate(mach_task_self(), notes->header.msgh_remote_port));
    }
    if (notes->invalidates) CFMachPortInvalidate(port);
}

static struct notes *lastInvalidated;
static int invalidations;

static void noteInvalidation(CFMachPortRef port, void *info) {
    invalidations++;
    lastInvalidated = info;
    EXPECT(!CFMachPortIsValid(port));
}

static CFMachPortRef make(struct notes *notes) {
    CFMachPortContext context = {0, notes, retain, release, describe};
    Boolean shouldFreeInfo = true;
    CFMachPortRef port = CFMachPortCreate(NULL, note, &context, &shouldFreeInfo);
    REQUIRE(port && !shouldFreeInfo);
    return port;
}

static CFRunLoopSourceRef schedule(CFMachPortRef port) {
    CFRunLoopSourceRef source = CFMachPortCreateRunLoopSource(NULL, port, 0);
    REQUIRE(source);
    CFRunLoopAddSource(CFRunLoopGetCurrent(), source, kCFRunLoopDefaultMode);
    CFRelease(source);
    return source;
}

static SInt32 run(CFTimeInterval seconds) { return CFRunLoopRunInMode(kCFRunLoopDefaultMode, seconds, true); }

static void a_port_is_a_CFType(void) {
    struct notes notes = {0};
    CFMachPortRef port = make(&notes);
    EXPECT(CFGetTypeID(port) == CFMachPortGetTypeID() && CFMachPortGetTypeID() != CFMessagePortGetTypeID());
    EXPECT(CFMachPortIsValid(port) && MACH_PORT_VALID(CFMachPortGetPort(port)));
    CFMachPortContext context;
    CFMachPortGetContext(port, &context);
    EXPECT(context.version == 0 && context.info == &notes && context.retain == retain && context.release == release);
    CFStringRef text = CFCopyDescription(port);
    EXPECT(CFStringFind(text, CFSTR("CFMachPort"), 0).location != kCFNotFound);
    EXPECT(CFStringFind(text, CFSTR("the notes"), 0).location != kCFNotFound);
    CFRelease(text);
    EXPECT(notes.retains == 1 && notes.releases == 0 && CFGetRetainCount(port) == 1);
    CFRelease(port);
    EXPECT(notes.releases == 1);
}

static void one_message_is_one_callback(void) {
    struct notes notes = {0};
    CFMachPortRef port = make(&notes);
    schedule(port);
    for (int id = 1; id <= 3; id++) EXPECT(!sendTo(CFMachPortGetPort(port), 0, id, "hello"));
    for (int id = 1; id <= 3; id++) {
        EXPECT(run(10) == kCFRunLoopRunHandledSource);
        EXPECT(notes.calls == id && notes.header.msgh_id == id && notes.port == port);
        EXPECT(notes.size == sizeof(mach_msg_header_t) + 5 && notes.header.msgh_size == notes.size);
        EXPECT(!memcmp(notes.bytes, "hello", 5) && notes.header.msgh_local_port == CFMachPortGetPort(port));
        EXPECT(notes.header.msgh_remote_port == MACH_PORT_NULL);
        EXPECT(MACH_MSGH_BITS_REMOTE(notes.header.msgh_bits) == 0);
        EXPECT(MACH_MSGH_BITS_LOCAL(notes.header.msgh_bits) == MACH_MSG_TYPE_MOVE_SEND);
    }
    EXPECT(run(0.02) == kCFRunLoopRunTimedOut);
    EXPECT(!sendTo(CFMachPortGetPort(port), 0, 4, ""));
    EXPECT(run(10) == kCFRunLoopRunHandledSource && notes.size == sizeof(mach_msg_header_t));
    CFMachPortInvalidate(port);
    CFRelease(port);
}

static void *sendFromThread(void *info) {
    mach_port_t port = *(mach_port_t *)info;
    int failed = 0;
    for (int id = 0; id < 500; id++) failed += sendTo(port, 0, id, "from a thread") != MACH_MSG_SUCCESS;
    return failed ? info : NULL;
}

static void other_threads_send(void) {
    struct notes notes = {0};
    CFMachPortRef port = make(&notes);
    schedule(port);
    mach_port_t number = CFMachPortGetPort(port);
    pthread_t threads[3];
    for (int at = 0; at < 3; at++) pthread_create(&threads[at], NULL, sendFromThread, &number);
    while (notes.calls < 1500 && run(10) == kCFRunLoopRunHandledSource) {}
    EXPECT(notes.calls == 1500);
    for (int at = 0; at < 3; at++) {
        void *failed;
        pthread_join(threads[at], &failed);
        EXPECT(!failed);
    }
    CFMachPortInvalidate(port);
    CFRelease(port);
}

static void one_number_is_one_object(void) {
    struct notes notes = {0}, others = {0};
    CFMachPortRef port = make(&notes);
    CFMachPortContext context = {0, &others, retain, release, NULL};
    Boolean shouldFreeInfo = false;
    CFMachPortRef same = CFMachPortCreateWithPort(NULL, CFMachPortGetPort(port), note, &context, &shouldFreeInfo);
    EXPECT(same == port && shouldFreeInfo && others.retains == 0);
    CFRelease(same);
    mach_port_t number = CFMachPortGetPort(port);
    CFMachPortInvalidate(port);
    EXPECT(CFMachPortGetPort(port) == number);
    EXPECT(!CFMachPortCreateWithPort(NULL, number, note, &context, &shouldFreeInfo) && shouldFreeInfo);
    EXPECT(sendTo(number, 0, 1, "") == MACH_SEND_INVALID_DEST);
    CFRelease(port);
    EXPECT(!CFMachPortCreateWithPort(NULL, 77, note, &context, NULL));
    EXPECT(!CFMachPortCreateWithPort(NULL, MACH_PORT_NULL, note, &context, NULL) && others.retains == 0);
}

static void an_invalidation_is_reported_once(void) {
    struct notes notes = {0};
    CFMachPortRef port = make(&notes);
    CFRunLoopSourceRef source = schedule(port);
    CFRetain(source);
    EXPECT(!CFMachPortGetInvalidationCallBack(port));
    CFMachPortSetInvalidationCallBack(port, noteInvalidation);
    EXPECT(CFMachPortGetInvalidationCallBack(port) == noteInvalidation);
    EXPECT(!sendTo(CFMachPortGetPort(port), 0, 1, ""));
    CFMachPortInvalidate(port);
    EXPECT(!CFMachPortIsValid(port) && !CFRunLoopSourceIsValid(source));
    EXPECT(invalidations == 1 && lastInvalidated == &notes && notes.releases == 1);
    CFMachPortInvalidate(port);
    EXPECT(invalidations == 1 && run(0.02) != kCFRunLoopRunHandledSource && notes.calls == 0);
    EXPECT(!CFMachPortCreateRunLoopSource(NULL, port, 0));
    CFMachPortContext context;
    CFMachPortGetContext(port, &context);
    EXPECT(!context.info);
    CFRelease(source);
    CFRelease(port);
    // Set too late, it is called at once, without the info.
    struct notes others = {0};
    CFMachPortRef other = make(&others);
    CFMachPortInvalidate(other);
    CFMachPortSetInvalidationCallBack(other, noteInvalidation);
    EXPECT(invalidations == 2 && !lastInvalidated);
    CFRelease(other);
    // The last release invalidates.
    CFMachPortRef released = make(&others);
    CFMachPortSetInvalidationCallBack(released, noteInvalidation);
    CFRelease(released);
    EXPECT(invalidations == 3 && lastInvalidated == &others && others.releases == 2);
}

static void a_callback_may_invalidate_its_port(void) {
    struct notes notes = {.invalidates = true};
    CFMachPortRef port = make(&notes);
    CFRunLoopSourceRef source = schedule(port);
    CFRetain(source);
    mach_port_t number = CFMachPortGetPort(port);
    // The source keeps the port.
    CFRelease(port);
    EXPECT(!sendTo(number, 0, 1, "end") && run(10) == kCFRunLoopRunHandledSource);
    EXPECT(notes.calls == 1 && notes.releases == notes.retains && !CFRunLoopSourceIsValid(source));
    CFRelease(source);
}

static void a_source_is_one_until_it_is_invalid(void) {
    struct notes notes = {0};
    CFMachPortRef port = make(&notes);
    CFRunLoopSourceRef source = CFMachPortCreateRunLoopSource(NULL, port, 0);
    CFRunLoopSourceRef same = CFMachPortCreateRunLoopSource(NULL, port, 0);
    EXPECT(source == same);
    CFRunLoopSourceInvalidate(source);
    EXPECT(CFMachPortIsValid(port));
    CFRunLoopSourceRef other = CFMachPortCreateRunLoopSource(NULL, port, 0);
    EXPECT(other && other != source && CFRunLoopSourceIsValid(other));
    CFRelease(source);
    CFRelease(same);
    CFRelease(other);
    CFRelease(port);
}

static void an_allocated_port_outlives_its_object(void) {
    mach_port_t number;
    REQUIRE(!mach_port_allocate(mach_task_self(), MACH_PORT_RIGHT_RECEIVE, &number));
    REQUIRE(!mach_port_insert_right(mach_task_self(), number, number, MACH_MSG_TYPE_MAKE_SEND));
    for (int round = 0; round < 2; round++) {
        struct notes notes = {0};
        CFMachPortContext context = {0, &notes, NULL, NULL, NULL};
        CFMachPortRef port = CFMachPortCreateWithPort(NULL, number, note, &context, NULL);
        REQUIRE(port);
        schedule(port);
        EXPECT(!sendTo(number, 0, 1, "x") && run(10) == kCFRunLoopRunHandledSource && notes.calls == 1);
        CFMachPortInvalidate(port);
        CFRelease(port);
    }
    CFMachPortRef port = CFMachPortCreateWithPort(NULL, number, note, NULL, NULL);
    EXPECT(!mach_port_mod_refs(mach_task_self(), number, MACH_PORT_RIGHT_RECEIVE, -1));
    EXPECT(sendTo(number, 0, 1, "x") == MACH_SEND_INVALID_DEST);
    EXPECT(!mach_port_deallocate(mach_task_self(), number));
    for (int wait = 0; wait < 1000 && CFMachPortIsValid(port); wait++) run(0.01);
    EXPECT(!CFMachPortIsValid(port));
    CFRelease(port);
    // The object gives its reference back last, on a thread of the library.
    for (int wait = 0; wait < 1000 && !mach_port_mod_refs(mach_task_self(), number, MACH_PORT_RIGHT_SEND, 0); wait++)
        run(0.01);
    EXPECT(mach_port_deallocate(mach_task_self(), number) == KERN_INVALID_NAME);
    REQUIRE(!mach_port_allocate(mach_task_self(), MACH_PORT_RIGHT_RECEIVE, &number));
    EXPECT(mach_port_deallocate(mach_task_self(), number) == KERN_INVALID_RIGHT);
    EXPECT(!mach_port_destroy(mach_task_self(), number));
    EXPECT(mach_port_destroy(mach_task_self(), number) == KERN_INVALID_NAME);
    EXPECT(mach_port_allocate(mach_task_self(), MACH_PORT_RIGHT_SEND, &number) == KERN_INVALID_ARGUMENT);
}

static void *askServer(void *info) {
    mach_port_t server, answers;
    if (bootstrap_look_up(bootstrap_port, "com.example.mach", &server)) return "no server";
    if (mach_port_allocate(mach_task_self(), MACH_PORT_RIGHT_RECEIVE, &answers)) return "no port";
    if (sendTo(server, answers, 7, "question")) return "not sent";
    struct {
        mach_msg_header_t header;
        char bytes[40];
    } message;
    mach_msg_return_t result = mach_msg(
        &message.header, MACH_RCV_MSG | MACH_RCV_TIMEOUT, 0, sizeof message, answers, 10000, MACH_PORT_NULL);
    if (result || message.header.msgh_id != 107 || memcmp(message.bytes, "answer", 6)) return "no answer";
    result = mach_msg(&message.header, MACH_RCV_MSG | MACH_RCV_TIMEOUT, 0, sizeof message, answers, 10, MACH_PORT_NULL);
    if (result != MACH_RCV_TIMED_OUT) return "an answer too many";
    if (sendTo(answers, 0, 1, "this is longer than the room for it")) return "not sent";
    result = mach_msg(&message.header, MACH_RCV_MSG, 0, 30, answers, 0, MACH_PORT_NULL);
    if (result != MACH_RCV_TOO_LARGE) return "not too large";
    mach_port_destroy(mach_task_self(), answers);
    result = mach_msg(&message.header, MACH_RCV_MSG, 0, sizeof message, answers, 0, MACH_PORT_NULL);
    if (result != MACH_RCV_INVALID_NAME) return "still there";
    return mach_port_deallocate(mach_task_self(), server) ? "no reference" : NULL;
}

static void a_name_leads_to_a_port(void) {
    mach_port_t number, other;
    EXPECT(bootstrap_look_up(bootstrap_port, "com.example.mach", &number) == BOOTSTRAP_UNKNOWN_SERVICE);
    REQUIRE(!bootstrap_check_in(bootstrap_port, "com.example.mach", &number));
    EXPECT(bootstrap_check_in(bootstrap_port, "com.example.mach", &other) == BOOTSTRAP_SERVICE_ACTIVE);
    struct notes notes = {.answers = true};
    CFMachPortContext context = {0, &notes, NULL, NULL, NULL};
    CFMachPortRef port = CFMachPortCreateWithPort(NULL, number, note, &context, NULL);
    REQUIRE(port);
    schedule(port);
    pthread_t asker;
    pthread_create(&asker, NULL, askServer, NULL);
    EXPECT(run(10) == kCFRunLoopRunHandledSource && notes.header.msgh_id == 7);
    void *failure;
    pthread_join(asker, &failure);
    if (failure) fprintf(stderr, "%s\n", (char *)failure);
    EXPECT(!failure);
    CFMachPortRef named = make(&notes);
    EXPECT(!bootstrap_register(bootstrap_port, "com.example.named", CFMachPortGetPort(named)));
    EXPECT(bootstrap_register(bootstrap_port, "com.example.mach", CFMachPortGetPort(named)) == BOOTSTRAP_NAME_IN_USE);
    EXPECT(!bootstrap_look_up(bootstrap_port, "com.example.named", &other) && other == CFMachPortGetPort(named));
    mach_port_deallocate(mach_task_self(), other);
    CFRelease(named);
    EXPECT(bootstrap_look_up(bootstrap_port, "com.example.named", &other) == BOOTSTRAP_UNKNOWN_SERVICE);
    CFRelease(port);
    mach_port_destroy(mach_task_self(), number);
}

// As a server that has created its service before it checks in, and that answers with the right of the message.
static void a_service_is_created_and_checked_in(void) {
    mach_port_t created, server, client, answers;
    REQUIRE(!bootstrap_create_service(bootstrap_port, "com.example.created", &created));
    REQUIRE(!bootstrap_check_in(bootstrap_port, "com.example.created", &server) && server == created);
    EXPECT(bootstrap_check_in(bootstrap_port, "com.example.created", &client) == BOOTSTRAP_SERVICE_ACTIVE);
    REQUIRE(!bootstrap_look_up(bootstrap_port, "com.example.created", &client) && client == server);
    REQUIRE(!mach_port_allocate(mach_task_self(), MACH_PORT_RIGHT_RECEIVE, &answers));
    EXPECT(!sendTo(client, answers, 400, "12"));
    struct {
        mach_msg_header_t header;
        char bytes[8];
        mach_msg_trailer_t trailer;
    } message;
    EXPECT(!mach_msg(&message.header, MACH_RCV_MSG, 0, sizeof message, server, MACH_MSG_TIMEOUT_NONE, MACH_PORT_NULL));
    EXPECT(message.header.msgh_id == 400 && !memcmp(message.bytes, "12", 2));
    message.header.msgh_bits = MACH_MSGH_BITS(MACH_MSGH_BITS_REMOTE(message.header.msgh_bits), 0);
    message.header.msgh_local_port = MACH_PORT_NULL;
    message.header.msgh_reserved = 0;
    mach_msg_size_t size = sizeof message.header + 2;
    EXPECT(!mach_msg(&message.header, MACH_SEND_MSG, size, 0, MACH_PORT_NULL, 0, MACH_PORT_NULL));
    // The answer has taken the reference.
    EXPECT(mach_port_deallocate(mach_task_self(), answers) == KERN_INVALID_RIGHT);
    message.header.msgh_local_port = answers;
    message.header.msgh_size = sizeof message;
    EXPECT(!mach_msg_receive(&message.header) && message.header.msgh_size == size);
    message.header = (mach_msg_header_t){.msgh_remote_port = server, .msgh_size = size, .msgh_id = 7};
    EXPECT(!mach_msg_send(&message.header));
    EXPECT(!mach_msg(&message.header, MACH_RCV_MSG, 0, sizeof message, server, 0, MACH_PORT_NULL));
    EXPECT(message.header.msgh_id == 7);
    mach_port_destroy(mach_task_self(), answers);
    mach_port_destroy(mach_task_self(), server);
    EXPECT(!strcmp(mach_error_string(KERN_SUCCESS), "(os/kern) successful"));
}

// To learn of the end of a port that this process cannot receive from.
static void a_port_to_send_to_is_watched(void) {
    mach_port_t number, found;
    REQUIRE(!bootstrap_check_in(bootstrap_port, "com.example.watched", &number));
    REQUIRE(!bootstrap_look_up(bootstrap_port, "com.example.watched", &found));
    REQUIRE(!mach_port_mod_refs(mach_task_self(), number, MACH_PORT_RIGHT_SEND, 1));
    CFMachPortRef port = CFMachPortCreateWithPort(NULL, found, NULL, NULL, NULL);
    CFMachPortSetInvalidationCallBack(port, noteInvalidation);
    CFRunLoopSourceRef source = schedule(port);
    CFRetain(source);
    EXPECT(run(0.02) == kCFRunLoopRunTimedOut);
    EXPECT(!mach_port_mod_refs(mach_task_self(), number, MACH_PORT_RIGHT_RECEIVE, -1));
    for (int wait = 0; wait < 1000 && CFMachPortIsValid(port); wait++) run(0.01);
    for (int wait = 0; wait < 1000 && CFRunLoopSourceIsValid(source); wait++) run(0.01);
    EXPECT(invalidations == 1 && !CFRunLoopSourceIsValid(source));
    CFRelease(source);
    CFRelease(port);
}

static void a_message_has_its_limits(void) {
    struct notes notes = {0};
    CFMachPortRef port = make(&notes);
    mach_msg_header_t header = {0, sizeof header, CFMachPortGetPort(port), 0, 0, 1};
    EXPECT(mach_msg(&header, MACH_SEND_MSG, sizeof header - 1, 0, 0, 0, 0) == MACH_SEND_MSG_TOO_SMALL);
    header.msgh_bits = MACH_MSGH_BITS_COMPLEX;
    EXPECT(mach_msg(&header, MACH_SEND_MSG, sizeof header, 0, 0, 0, 0) == MACH_SEND_INVALID_TYPE);
    header.msgh_bits = 0;
    header.msgh_local_port = 99;
    EXPECT(mach_msg(&header, MACH_SEND_MSG, sizeof header, 0, 0, 0, 0) == MACH_SEND_INVALID_REPLY);
    header.msgh_local_port = 0;
    int sent = 0;
    while (sent < 5000 && !mach_msg(&header, MACH_SEND_MSG | MACH_SEND_TIMEOUT, sizeof header, 0, 0, 0, 0)) sent++;
    EXPECT(sent > 0 && sent < 5000);
    EXPECT(mach_msg(&header, MACH_SEND_MSG | MACH_SEND_TIMEOUT, sizeof header, 0, 0, 5, 0) == MACH_SEND_TIMED_OUT);
    CFRelease(port);
}

struct complex {
    mach_msg_header_t header;
    mach_msg_body_t body;
    mach_msg_ool_descriptor_t memory[2];
    char bytes[4];
    mach_msg_trailer_t trailer;
};

static int complexCalls;

static void noteMemory(CFMachPortRef port, void *message, CFIndex size, void *info) {
    struct complex *received = message;
    complexCalls++;
    EXPECT(size == offsetof(struct complex, trailer) && received->header.msgh_bits & MACH_MSGH_BITS_COMPLEX);
    EXPECT(received->body.msgh_descriptor_count == 2 && !memcmp(received->bytes, "end", 4));
    EXPECT(received->memory[0].size == 100000 && received->memory[1].size == 0 && !received->memory[1].address);
    const char *memory = received->memory[0].address;
    EXPECT(memory && memory != info && memory[0] == 'm' && memory[99999] == 'm');
    mach_msg_destroy(&received->header);
}

// As window managers send the words of a command.
static void a_message_carries_memory(void) {
    char *memory = malloc(100000);
    memset(memory, 'm', 100000);
    CFMachPortContext context = {0, memory, NULL, NULL, NULL};
    CFMachPortRef port = CFMachPortCreate(NULL, noteMemory, &context, NULL);
    schedule(port);
    struct complex message = {.header = {.msgh_remote_port = CFMachPortGetPort(port), .msgh_id = 3}, .bytes = "end"};
    message.header.msgh_bits = MACH_MSGH_BITS_SET(MACH_MSG_TYPE_COPY_SEND, 0, 0, MACH_MSGH_BITS_COMPLEX);
    message.header.msgh_size = offsetof(struct complex, trailer);
    message.body.msgh_descriptor_count = 2;
    for (int at = 0; at < 2; at++) message.memory[at].type = MACH_MSG_OOL_DESCRIPTOR;
    message.memory[0].address = memory;
    message.memory[0].size = 100000;
    message.memory[0].copy = MACH_MSG_VIRTUAL_COPY;
    for (int count = 1; count <= 3; count++) {
        EXPECT(!mach_msg_send(&message.header));
        EXPECT(run(10) == kCFRunLoopRunHandledSource && complexCalls == count);
    }
    // Into a buffer that is too small, and into one that is not.
    mach_port_t number;
    REQUIRE(!mach_port_allocate(mach_task_self(), MACH_PORT_RIGHT_RECEIVE, &number));
    struct complex received;
    for (int count = 0; count < 2; count++) {
        message.header.msgh_remote_port = number;
        EXPECT(!mach_msg_send(&message.header));
        mach_msg_size_t room = count ? sizeof received : 40;
        mach_msg_return_t result = mach_msg(&received.header, MACH_RCV_MSG, 0, room, number, 0, 0);
        EXPECT(result == (count ? MACH_MSG_SUCCESS : MACH_RCV_TOO_LARGE));
    }
    EXPECT(((char *)received.memory[0].address)[5] == 'm');
    EXPECT(!vm_deallocate(mach_task_self(), (vm_address_t)received.memory[0].address, received.memory[0].size));
    mach_port_destroy(mach_task_self(), number);
    // Rights do not travel, and a list of descriptors is checked.
    message.header.msgh_remote_port = CFMachPortGetPort(port);
    message.memory[1].type = 0;
    EXPECT(mach_msg_send(&message.header) == MACH_SEND_INVALID_TYPE);
    message.body.msgh_descriptor_count = 1000;
    EXPECT(mach_msg_send(&message.header) == MACH_SEND_INVALID_TYPE);
    message.body.msgh_descriptor_count = 1;
    message.memory[0].address = NULL;
    EXPECT(mach_msg_send(&message.header) == MACH_SEND_INVALID_DATA);
    EXPECT(complexCalls == 3);
    CFMachPortInvalidate(port);
    CFRelease(port);
    free(memory);
}

static void the_time_is_measured_in_nanoseconds(void) {
    mach_timebase_info_data_t base;
    EXPECT(mach_timebase_info(&base) == KERN_SUCCESS && base.numer == base.denom);
    uint64_t before = mach_absolute_time();
    CFAbsoluteTime start = CFAbsoluteTimeGetCurrent();
    while (CFAbsoluteTimeGetCurrent() < start + 0.01) {}
    uint64_t passed = mach_absolute_time() - before;
    EXPECT(passed > 5000000 && passed < 30000000000);
}

int main(int count, char **words) {
    struct behaviour all[] = {
        BEHAVIOUR(a_port_is_a_CFType),
        BEHAVIOUR(one_message_is_one_callback),
        BEHAVIOUR(other_threads_send),
        BEHAVIOUR(one_number_is_one_object),
        BEHAVIOUR(an_invalidation_is_reported_once),
        BEHAVIOUR(a_callback_may_invalidate_its_port),
        BEHAVIOUR(a_source_is_one_until_it_is_invalid),
        BEHAVIOUR(an_allocated_port_outlives_its_object),
        BEHAVIOUR(a_name_leads_to_a_port),
        BEHAVIOUR(a_service_is_created_and_checked_in),
        BEHAVIOUR(a_port_to_send_to_is_watched),
        BEHAVIOUR(a_message_has_its_limits),
        BEHAVIOUR(a_message_carries_memory),
        BEHAVIOUR(the_time_is_measured_in_nanoseconds),
    };
    return run_behaviours(all, sizeof all / sizeof *all, count, words);
}
