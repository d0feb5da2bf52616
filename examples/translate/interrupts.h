/* interrupts.h: delays Ctrl-C until the program has finished and written its current work.

       interrupts_hold(1);
       while (work() && !stopped()) ...
       write_what_is_ready();
       interrupts_hold(0);
       if (stopped()) interrupts_end();

   While interrupts are held, the first SIGINT or SIGTERM only makes stopped() return nonzero; a
   second one ends the program at once. Signals that are ignored stay ignored. Any thread may call
   stopped. On systems without sigaction nothing is held. Define _POSIX_C_SOURCE 200809L before the
   first include.

   interrupts_word is a text for standard error that the program ends with, such as the name of a
   file that is not whole. Set it before interrupts_hold. */
#ifndef INTERRUPTS_H
#define INTERRUPTS_H

#if defined(__unix__) || defined(__APPLE__)
#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile int interrupts_signal;
static const char *interrupts_word; /* NULL: none */

#ifdef __ATOMIC_RELAXED
static void interrupts_note(int number) {
    __atomic_store_n(&interrupts_signal, number, __ATOMIC_RELAXED);
}
/* Returns the number of the signal that arrived, or 0. */
static int interrupts_stopped(void) {
    return __atomic_load_n(&interrupts_signal, __ATOMIC_RELAXED);
}
#else
static void interrupts_note(int number) { interrupts_signal = number; }
static int interrupts_stopped(void) { return interrupts_signal; }
#endif

/* Ends the program with interrupts_word. The signal's own action is back, and ends the program when
   this function returns. */
static void interrupts_say(int number) {
    const char *word = interrupts_word;
    while (*word) {
        ssize_t n = write(2, word, strlen(word));
        if (n <= 0) break;
        word += n;
    }
    raise(number);
}

/* Begins to hold interrupts, or with hold 0 stops holding them. */
static void interrupts_hold(int hold) {
    static const int numbers[] = {SIGINT, SIGTERM};
    struct sigaction action, old;
    int i;
    memset(&action, 0, sizeof action);
    if (hold)
        action.sa_handler = interrupts_note, action.sa_flags = (int)(SA_RESTART | SA_RESETHAND);
    else if (interrupts_word)
        action.sa_handler = interrupts_say, action.sa_flags = (int)SA_RESETHAND;
    else action.sa_handler = SIG_DFL;
    for (i = 0; i < 2; i++)
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            (void)sigaction(numbers[i], &action, NULL);
}

/* Ends the program by the signal that arrived, so its parent process sees this signal. */
static void interrupts_end(void) {
    interrupts_hold(0);
    raise(interrupts_stopped());
}
#else
static const char *interrupts_word;
static int interrupts_stopped(void) { return 0; }
static void interrupts_hold(int hold) { (void)hold; }
static void interrupts_end(void) { (void)interrupts_word; }
#endif

#endif
