target_link_libraries(lt_optim ${kind} PkgConfig::libpcre2_8)
