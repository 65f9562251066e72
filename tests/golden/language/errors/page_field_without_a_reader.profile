CREATE DOMAIN "D" AS
CLASS::A(price:Decimal);
