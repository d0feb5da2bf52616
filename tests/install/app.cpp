// A program of somebody else's in C++17: translates what its second argument is.
#include <transformer.h>

#include <iostream>
#include <memory>
#include <optional>
#include <string>

struct Free {
    void operator()(tfm_model *model) const { tfm_model_free(model); }
    void operator()(tfm_session *session) const { tfm_session_free(session); }
};

static std::optional<std::string> translate(const char *path, const std::string &text,
                                            std::string &fault) {
    tfm_error err{};
    tfm_model *model = nullptr;
    tfm_session *session = nullptr;
    std::string out(4096, '\0');
    tfm_status status = tfm_model_load_file(&model, path, nullptr, &err);
    const std::unique_ptr<tfm_model, Free> hold_model(model);
    if (status == TFM_OK) status = tfm_session_create(&session, model, nullptr, &err);
    const std::unique_ptr<tfm_session, Free> hold_session(session);
    if (status == TFM_OK)
        status = tfm_translate(session, text.c_str(), out.data(), out.size(), &err);
    fault = err.text;
    if (status != TFM_OK) return std::nullopt;
    return out.substr(0, out.find('\0'));
}

int main(int argc, char **argv) {
    std::string fault;
    if (argc < 3) return 2;
    if (const auto text = translate(argv[1], argv[2], fault)) {
        std::cout << *text << '\n';
        return 0;
    }
    std::cerr << fault << '\n';
    return 1;
}
