// What the program does for tests with several processes: behaviour serve NAME, and so on.

// Answers until id 99, and then once more.
static CFDataRef serveOthers(CFMessagePortRef port, SInt32 id, CFDataRef data, void *info) {
    if (id == 99) CFRunLoopStop(CFRunLoopGetCurrent());
    return answer(port, id, data, NULL);
}

static CFRunLoopRef watchingLoop;

static void stopLoop(CFRunLoopTimerRef timer, void *info) { CFRunLoopStop(CFRunLoopGetCurrent()); }

static void noteEnd(CFMessagePortRef port, void *info) {
    puts("invalid");
    fflush(stdout);
    // Also when the loop does not run yet.
    CFRunLoopTimerRef timer = CFRunLoopTimerCreate(NULL, CFAbsoluteTimeGetCurrent(), 0, 0, 0, stopLoop, NULL);
    CFRunLoopAddTimer(watchingLoop, timer, kCFRunLoopDefaultMode);
    CFRelease(timer);
}

// The port ends with its first request.
static CFDataRef answerAndEnd(CFMessagePortRef port, SInt32 id, CFDataRef data, void *info) {
    CFMessagePortInvalidate(port);
    CFRunLoopStop(CFRunLoopGetCurrent());
    return CFDataCreateCopy(NULL, data);
}

static int serve(CFStringRef name, CFMessagePortCallBack callBack) {
    CFMessagePortRef port = CFMessagePortCreateLocal(NULL, name, callBack, NULL, NULL);
    if (!port) return 3;
    schedule(port, kCFRunLoopDefaultMode);
    puts("ready");
    fflush(stdout);
    CFRunLoopRun();
    CFMessagePortInvalidate(port);
    CFRelease(port);
    return failures;
}

static int watch(CFMessagePortRef remote) {
    watchingLoop = CFRunLoopGetCurrent();
    CFMessagePortSetInvalidationCallBack(remote, noteEnd);
    puts("ready");
    fflush(stdout);
    // A mode needs something to run with.
    CFMessagePortRef own = makeLocal(NULL, NULL);
    schedule(own, kCFRunLoopDefaultMode);
    CFRunLoopRun();
    EXPECT(!CFMessagePortIsValid(remote));
    CFMessagePortInvalidate(own);
    CFRelease(own);
    return failures;
}

// The end of the process loses nothing.
static int tell(CFMessagePortRef remote) {
    for (SInt32 id = 1; id <= 500; id++)
        EXPECT(CFMessagePortSendRequest(remote, id, NULL, 10, 0, NULL, NULL) == kCFMessagePortSuccess);
    return failures;
}

static int ask(CFMessagePortRef remote) {
    CFDataRef data = bytes("from C"), reply = NULL;
    SInt32 result = CFMessagePortSendRequest(remote, 33, data, 10, 30, kCFRunLoopDefaultMode, &reply);
    CFRelease(data);
    if (result) return 10 - result;
    fwrite(CFDataGetBytePtr(reply), 1, (size_t)CFDataGetLength(reply), stdout);
    CFRelease(reply);
    return failures;
}

static int run_as_other(const char *what, const char *name, const char *program) {
    CFStringRef text = CFStringCreateWithCString(NULL, name, kCFStringEncodingUTF8);
    int status = 3;
    if (!strcmp(what, "serve")) {
        status = serve(text, serveOthers);
    } else if (!strcmp(what, "end")) {
        status = serve(text, answerAndEnd);
    } else {
        CFMessagePortRef remote = CFMessagePortCreateRemote(NULL, text);
        if (remote) {
            status = !strcmp(what, "watch") ? watch(remote) : !strcmp(what, "tell") ? tell(remote) : ask(remote);
            CFRelease(remote);
        }
    }
    CFRelease(text);
    return status;
}
