// Two threads talk over message ports, as in Apple's Threading Programming Guide, listings 3-17 to 3-19: the same calls
// in the same order, with a POSIX thread in place of a Carbon task.
#include <CoreFoundation/CoreFoundation.h>
#include <pthread.h>

enum { checkIn = 100, reverse = 1, quit = 2 };

static void talkTo(CFMessagePortRef worker);

// Listing 3-18: the main thread is told the name of a worker's port, finds the port, and keeps it.
static CFDataRef handleMainThreadMessage(CFMessagePortRef local, SInt32 msgid, CFDataRef data, void *info) {
    if (msgid != checkIn) {
        printf("Main: I do not know message %d.\n", (int)msgid);
        return NULL;
    }
    CFIndex count = CFDataGetLength(data);
    UInt8 *buffer = CFAllocatorAllocate(NULL, count, 0);
    CFDataGetBytes(data, CFRangeMake(0, count), buffer);
    CFStringRef name = CFStringCreateWithBytes(NULL, buffer, count, kCFStringEncodingASCII, FALSE);
    printf("Main: a worker has checked in with its port's name.\n");

    CFMessagePortRef worker = CFMessagePortCreateRemote(NULL, name);
    if (worker) {
        talkTo(worker);
        CFRelease(worker);
    }
    CFRelease(name);
    CFAllocatorDeallocate(NULL, buffer);
    return NULL;
}

static void workerEnded(CFMessagePortRef worker, void *info) { CFRunLoopStop(CFRunLoopGetMain()); }

static void askAndEnd(CFRunLoopTimerRef timer, void *info) {
    CFMessagePortRef worker = info;
    CFDataRef word = CFDataCreate(NULL, (const UInt8 *)"olleh", 5), reply = NULL;
    SInt32 result = CFMessagePortSendRequest(worker, reverse, word, 10, 10, kCFRunLoopDefaultMode, &reply);
    if (result == kCFMessagePortSuccess && reply) {
        printf("Main: the worker has replied “%.*s”.\n", (int)CFDataGetLength(reply), CFDataGetBytePtr(reply));
        CFRelease(reply);
    } else {
        printf("Main: no reply, but result %d.\n", (int)result);
    }
    CFRelease(word);
    CFMessagePortSendRequest(worker, quit, NULL, 10, 0, NULL, NULL);
}

// Later, because who checks in does not wait. The timer keeps the port.
static void talkTo(CFMessagePortRef worker) {
    CFMessagePortSetInvalidationCallBack(worker, workerEnded);
    CFRunLoopTimerContext context = {0, worker, CFRetain, CFRelease, NULL};
    CFRunLoopTimerRef timer = CFRunLoopTimerCreate(NULL, CFAbsoluteTimeGetCurrent(), 1e9, 0, 0, askAndEnd, &context);
    CFRunLoopAddTimer(CFRunLoopGetCurrent(), timer, kCFRunLoopDefaultMode);
    CFRelease(timer);
}

// The worker's answers to the main thread.
static CFDataRef handleRequest(CFMessagePortRef local, SInt32 msgid, CFDataRef data, void *info) {
    if (msgid == quit) {
        CFMessagePortInvalidate(local);
        CFRunLoopStop(CFRunLoopGetCurrent());
    }
    if (msgid != reverse) return NULL;
    CFMutableDataRef reply = CFDataCreateMutable(NULL, 0);
    for (CFIndex at = CFDataGetLength(data); at > 0; at--) CFDataAppendBytes(reply, CFDataGetBytePtr(data) + at - 1, 1);
    return reply;
}

// Listing 3-19: the worker makes a port of its own, and sends its name to the main thread.
static void *runWorker(void *parameter) {
    CFStringRef mainName = parameter;
    CFMessagePortRef mainThread = CFMessagePortCreateRemote(NULL, mainName);
    CFRelease(mainName);

    CFStringRef name = CFStringCreateWithFormat(NULL, NULL, CFSTR("com.example.Thread-%d"), (int)getpid());
    CFMessagePortContext context = {0, mainThread, CFRetain, CFRelease, NULL};
    Boolean shouldFreeInfo;
    CFMessagePortRef port = CFMessagePortCreateLocal(NULL, name, &handleRequest, &context, &shouldFreeInfo);
    if (shouldFreeInfo) return NULL;
    CFRunLoopSourceRef source = CFMessagePortCreateRunLoopSource(NULL, port, 0);
    if (!source) return NULL;
    CFRunLoopAddSource(CFRunLoopGetCurrent(), source, kCFRunLoopDefaultMode);
    // The run loop keeps them.
    CFRelease(port);
    CFRelease(source);

    CFIndex count = CFStringGetLength(name);
    UInt8 *buffer = CFAllocatorAllocate(NULL, count, 0);
    CFStringGetBytes(name, CFRangeMake(0, count), kCFStringEncodingASCII, 0, FALSE, buffer, count, NULL);
    CFDataRef data = CFDataCreate(NULL, buffer, count);
    CFMessagePortSendRequest(mainThread, checkIn, data, 0.1, 0.0, NULL, NULL);
    CFRelease(data);
    CFAllocatorDeallocate(NULL, buffer);
    CFRelease(name);
    CFRelease(mainThread);

    CFRunLoopRun();
    return NULL;
}

// Listing 3-17: the main thread makes its port, has its run loop serve it, and starts the worker.
static Boolean startWorker(pthread_t *thread) {
    CFMessagePortContext context = {0, NULL, NULL, NULL, NULL};
    Boolean shouldFreeInfo;
    CFStringRef name = CFStringCreateWithFormat(NULL, NULL, CFSTR("com.example.MainThread-%d"), (int)getpid());
    CFMessagePortRef port = CFMessagePortCreateLocal(NULL, name, &handleMainThreadMessage, &context, &shouldFreeInfo);
    if (port == NULL) return FALSE;
    CFRunLoopSourceRef source = CFMessagePortCreateRunLoopSource(NULL, port, 0);
    if (source) {
        CFRunLoopAddSource(CFRunLoopGetCurrent(), source, kCFRunLoopDefaultMode);
        CFRelease(port);
        CFRelease(source);
    }
    printf("Main: my port has a name; I start the worker.\n");
    return pthread_create(thread, NULL, runWorker, (void *)name) == 0;
}

int main(void) {
    pthread_t thread;
    if (!startWorker(&thread)) return 1;
    CFRunLoopRun();
    printf("Main: the worker's port is invalid, so my run loop has stopped.\n");
    pthread_join(thread, NULL);
    return 0;
}
