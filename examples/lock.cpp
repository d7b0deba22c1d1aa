// SPDX-License-Identifier: Apache-2.0
//
// A lock of a weir server as a C++ object: held from its construction to the end of its scope. Eight threads count
// under one lock, each with an owner of its own.
//
//     c++ -std=c++11 lock.cpp $(pkg-config --cflags --libs weir) -pthread -o lock && ./lock 127.0.0.1:6380
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include <weir/error.h>
#include <weir/lock.h>

class held_lock
{
  public:
    held_lock(weir_locks *locks, const char *name) : lock_(nullptr)
    {
        weir_lock_options options = {};
        options.ttl_ms = 10000;
        options.wait_ms = 30000;
        int error = weir_lock_acquire(locks, name, std::strlen(name), &options, &lock_);
        if (error != 0)
            throw std::runtime_error(weir_error_text(error));
    }
    ~held_lock()
    {
        weir_lock_release(lock_);
    }
    held_lock(const held_lock &) = delete;
    held_lock &operator=(const held_lock &) = delete;

    bool mine() const
    {
        return weir_lock_mine(lock_);
    }

  private:
    weir_lock *lock_;
};

int main(int argc, char **argv)
{
    weir_locks_options options = {};
    options.address = argc > 1 ? argv[1] : nullptr;
    weir_locks *locks = nullptr;
    weir_fault fault;
    if (weir_locks_connect(&options, &locks, &fault) != 0) {
        std::printf("cannot connect: %s %s\n", fault.field, fault.text);
        return 1;
    }
    volatile int count = 0; // what the lock protects
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; i++) {
        threads.emplace_back([&] {
            for (int n = 0; n < 10; n++) {
                held_lock lock(locks, "counter");
                int before = count;
                std::this_thread::yield();
                if (lock.mine())
                    count = before + 1;
            }
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    std::printf("%d threads counted to %d, one at a time\n", 8, static_cast<int>(count));
    weir_locks_disconnect(locks);
    return 0;
}
