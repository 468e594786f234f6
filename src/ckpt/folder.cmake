target_link_libraries(lt_ckpt ${kind} PkgConfig::jansson PkgConfig::zlib)
