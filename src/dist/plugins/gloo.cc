// The gloo engine: libgloo's connections and collectives behind the engines' C interface. All C++ of Taper's is in this
// file, and none of it in libtaper.so.
//
// gloo gives up all its connections when one wait of its times out. So waits here have no time limit of gloo's: a
// thread ends those whose time is up, and they begin again. A message is one of gloo's, of its label and its bytes,
// copied together.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <taper/dist.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

extern "C" {
#include "dist/engine/engine.h"
}

namespace {

using Clock = std::chrono::steady_clock;
const auto forever = std::chrono::hours(24 * 365);

// gloo's bytes as the job's texts.
class Store : public gloo::rendezvous::Store {
  public:
    explicit Store(const tpi_engine_host &host) : host(host) {}
    void set(const std::string &key, const std::vector<char> &data) override {
        std::string hex;
        for (char c : data) {
            hex += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
            hex += "0123456789abcdef"[c & 15];
        }
        if (!host.set(host.context, ("gloo/" + key).c_str(), hex.c_str())) throw std::runtime_error("the store failed");
    }
    std::vector<char> get(const std::string &key) override {
        std::vector<char> text(1 << 16), data;
        if (!host.get(host.context, ("gloo/" + key).c_str(), text.data(), static_cast<int64_t>(text.size())))
            throw std::runtime_error("the store failed");
        for (const char *at = text.data(); at[0] && at[1]; at += 2)
            data.push_back(static_cast<char>(std::strtol(std::string(at, 2).c_str(), nullptr, 16)));
        return data;
    }
    void wait(const std::vector<std::string> &keys) override {
        for (const auto &key : keys) get(key);
    }

  private:
    const tpi_engine_host &host;
};

struct Request {
    std::vector<char> bytes; // label, length, data
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
    void *data; // of a receive
    int64_t capacity;
    int peer;
    bool receives;
};

struct Engine {
    tpi_engine_host host;
    std::shared_ptr<gloo::rendezvous::Context> context;
    std::mutex lock;
    std::condition_variable changed;
    std::map<Request *, Clock::time_point> waits; // and when each is to end
    std::thread timer;
    bool stopped = false, closing = false;

    tpi_engine_result failed(const char *what) {
        host.fail(host.context, what);
        return TPI_ENGINE_FAILED;
    }
    static void end_wait(Request *r) { r->receives ? r->buffer->abortWaitRecv() : r->buffer->abortWaitSend(); }
    void keep_time() {
        std::unique_lock<std::mutex> held(lock);
        while (!closing) {
            auto next = Clock::now() + std::chrono::seconds(1);
            for (auto &wait : waits) {
                if (wait.second <= Clock::now() || stopped)
                    end_wait(wait.first), wait.second = Clock::now() + std::chrono::milliseconds(20);
                next = std::min(next, wait.second);
            }
            changed.wait_until(held, next);
        }
    }
};

template <typename Function> tpi_engine_result guarded(Engine *e, Function function) {
    try {
        return function();
    } catch (const std::exception &error) {
        return e->failed(error.what());
    }
}

// ---- Messages ----
constexpr size_t head = 2 * sizeof(uint64_t);

void *begin(Engine *e, int peer, uint64_t slot, std::unique_ptr<Request> r) {
    slot &= 0x00ffffffffffffff; // gloo's own collectives have the rest
    try {
        r->peer = peer;
        r->buffer = e->context->createUnboundBuffer(r->bytes.data(), r->bytes.size());
        if (!r->receives)
            r->buffer->send(peer, slot);
        else if (peer != TPI_ANY_RANK)
            r->buffer->recv(peer, slot);
        else {
            std::vector<int> all;
            for (int i = 0; i < e->host.size; i++)
                if (i != e->host.rank) all.push_back(i);
            r->buffer->recv(all, slot);
        }
        return r.release();
    } catch (const std::exception &error) {
        e->failed(error.what());
        return nullptr;
    }
}

void *gloo_send(void *self, void *, int to, uint64_t slot, uint64_t label, const void *data, int64_t bytes) {
    std::unique_ptr<Request> r(new Request());
    uint64_t about[2] = {label, static_cast<uint64_t>(bytes)};
    r->bytes.resize(head + static_cast<size_t>(bytes));
    std::memcpy(r->bytes.data(), about, head);
    if (bytes) std::memcpy(r->bytes.data() + head, data, static_cast<size_t>(bytes));
    return begin(static_cast<Engine *>(self), to, slot, std::move(r));
}

void *gloo_recv(void *self, void *, int from, uint64_t slot, void *data, int64_t bytes) {
    std::unique_ptr<Request> r(new Request());
    r->bytes.resize(head + static_cast<size_t>(bytes));
    r->receives = true, r->data = data, r->capacity = bytes;
    return begin(static_cast<Engine *>(self), from, slot, std::move(r));
}

tpi_engine_result gloo_finish(void *self, void *request, double seconds, tpi_message *message) {
    auto *e = static_cast<Engine *>(self);
    auto *r = static_cast<Request *>(request);
    {
        std::unique_lock<std::mutex> held(e->lock);
        e->waits[r] = Clock::now() + std::chrono::microseconds(static_cast<int64_t>(seconds * 1e6));
        e->changed.notify_all();
    }
    int from = r->peer;
    bool done = false;
    auto result = guarded(e, [&] {
        done = r->receives ? r->buffer->waitRecv(&from, forever) : r->buffer->waitSend(&from, forever);
        return TPI_ENGINE_DONE;
    });
    bool stopped;
    {
        std::unique_lock<std::mutex> held(e->lock);
        e->waits.erase(r);
        stopped = e->stopped;
    }
    if (result == TPI_ENGINE_DONE && !done && !stopped) return TPI_ENGINE_PASS;
    if (result == TPI_ENGINE_DONE && !done) result = e->failed("the job was stopped");
    uint64_t about[2];
    std::memcpy(about, r->bytes.data(), head);
    if (message) *message = {from, static_cast<int64_t>(about[1]), about[0]};
    if (done && r->receives && r->capacity)
        std::memcpy(r->data, r->bytes.data() + head, static_cast<size_t>(r->capacity));
    delete r;
    return result;
}

// ---- Collectives of all ranks; those of groups are made of messages ----
void *gloo_group(void *, int, const int *, int id) { return new int(id); }
void gloo_group_free(void *, void *members) { delete static_cast<int *>(members); }

template <typename T> tpi_engine_result all_reduce(Engine *e, T *data, int64_t count, int op) {
    gloo::AllreduceOptions options(e->context);
    options.setOutput(data, static_cast<size_t>(count));
    options.setTimeout(std::chrono::duration_cast<std::chrono::milliseconds>(forever));
    using Sum = void (*)(void *, const void *, const void *, size_t);
    Sum how = op == TP_REDUCE_SUM       ? static_cast<Sum>(&gloo::sum<T>)
              : op == TP_REDUCE_PRODUCT ? static_cast<Sum>(&gloo::product<T>)
              : op == TP_REDUCE_MIN     ? static_cast<Sum>(&gloo::min<T>)
              : op == TP_REDUCE_MAX     ? static_cast<Sum>(&gloo::max<T>)
                                        : nullptr;
    if (!how) return TPI_ENGINE_PASS;
    options.setReduceFunction(how);
    return guarded(e, [&] { return gloo::allreduce(options), TPI_ENGINE_DONE; });
}

tpi_engine_result gloo_all_reduce(void *self, void *members, void *data, int64_t count, int dtype, int op) {
    auto *e = static_cast<Engine *>(self);
    if (members || !count) return TPI_ENGINE_PASS;
    if (dtype == TP_FLOAT32) return all_reduce(e, static_cast<float *>(data), count, op);
    if (dtype == TP_FLOAT64) return all_reduce(e, static_cast<double *>(data), count, op);
    if (dtype == TP_INT64) return all_reduce(e, static_cast<int64_t *>(data), count, op);
    if (dtype == TP_INT32) return all_reduce(e, static_cast<int32_t *>(data), count, op);
    return TPI_ENGINE_PASS;
}

tpi_engine_result gloo_broadcast(void *self, void *members, void *data, int64_t bytes, int root) {
    auto *e = static_cast<Engine *>(self);
    if (members || !bytes) return TPI_ENGINE_PASS;
    gloo::BroadcastOptions options(e->context);
    options.setOutput(static_cast<char *>(data), static_cast<size_t>(bytes));
    options.setRoot(root);
    options.setTimeout(std::chrono::duration_cast<std::chrono::milliseconds>(forever));
    return guarded(e, [&] { return gloo::broadcast(options), TPI_ENGINE_DONE; });
}

tpi_engine_result gloo_all_gather(void *self, void *members, const void *in, void *out, int64_t bytes) {
    auto *e = static_cast<Engine *>(self);
    if (members || !bytes) return TPI_ENGINE_PASS;
    gloo::AllgatherOptions options(e->context);
    options.setInput(static_cast<char *>(const_cast<void *>(in)), static_cast<size_t>(bytes));
    options.setOutput(static_cast<char *>(out), static_cast<size_t>(bytes) * static_cast<size_t>(e->host.size));
    options.setTimeout(std::chrono::duration_cast<std::chrono::milliseconds>(forever));
    return guarded(e, [&] { return gloo::allgather(options), TPI_ENGINE_DONE; });
}

// ---- Opening and closing ----
void gloo_stop(void *self) {
    auto *e = static_cast<Engine *>(self);
    {
        std::unique_lock<std::mutex> held(e->lock);
        if (e->stopped) return;
        e->stopped = true;
        e->changed.notify_all();
    }
    guarded(e, [&] { return e->context->closeConnections(), TPI_ENGINE_DONE; }); // what waits in a collective fails
}

void gloo_close(void *self, bool in_order) {
    auto *e = static_cast<Engine *>(self);
    {
        std::unique_lock<std::mutex> held(e->lock);
        e->closing = true;
        e->changed.notify_all();
    }
    if (e->timer.joinable()) e->timer.join();
    if (in_order) delete e; // otherwise somebody may still be in a call
}

void *gloo_open(const tpi_engine_host *host) {
    std::unique_ptr<Engine> e(new Engine());
    e->host = *host;
    auto result = guarded(e.get(), [&] {
        gloo::transport::tcp::attr attr;
        const char *interface = std::getenv("GLOO_SOCKET_IFNAME");
        if (interface)
            attr.iface = interface;
        else
            attr.hostname = *host->address ? host->address : "127.0.0.1";
        auto device = gloo::transport::tcp::CreateDevice(attr);
        Store store(e->host);
        e->context = std::make_shared<gloo::rendezvous::Context>(host->rank, host->size);
        e->context->setTimeout(std::chrono::milliseconds(static_cast<int64_t>(host->timeout * 1e3)));
        e->context->connectFullMesh(store, device);
        e->timer = std::thread([engine = e.get()] { engine->keep_time(); });
        return TPI_ENGINE_DONE;
    });
    return result == TPI_ENGINE_DONE ? e.release() : nullptr;
}

tpi_engine make() {
    tpi_engine here = {};
    here.version = TPI_ENGINE_VERSION;
    here.name = "gloo";
    here.open = gloo_open, here.close = gloo_close, here.stop = gloo_stop;
    here.send = gloo_send, here.recv = gloo_recv, here.finish = gloo_finish;
    here.group = gloo_group, here.group_free = gloo_group_free;
    here.all_reduce = gloo_all_reduce, here.broadcast = gloo_broadcast, here.all_gather = gloo_all_gather;
    return here;
}

} // namespace

extern "C" __attribute__((visibility("default"))) const tpi_engine *tpi_engine_here(void) {
    static const tpi_engine here = make();
    return &here;
}
