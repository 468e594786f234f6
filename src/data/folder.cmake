target_link_libraries(lt_data ${kind} PkgConfig::jansson PkgConfig::libpcre2_8 PkgConfig::libutf8proc PkgConfig::libjpeg PkgConfig::libpng PkgConfig::libwebp PkgConfig::libwebpdemux PkgConfig::zlib)
