CREATE DOMAIN "D" AS
CLASS::A(channel.title:String),
CLASS::a(channel.title:String);
